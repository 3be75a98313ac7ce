// What every page needs: Preact with hooks, htm, signals. html is htm bound to Preact's h.
import {h} from "preact";
import htm from "htm";

export {h, render, Component, Fragment, createContext, createRef, cloneElement, toChildArray, options} from "preact";
export {
  useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext, useReducer, useId, useErrorBoundary,
} from "preact/hooks";
export {signal, computed, effect, batch, untracked, useSignal, useComputed, useSignalEffect} from "@preact/signals";
export const html = htm.bind(h);
