// CodeMirror, set up as the dashboard's JSON editor. It is loaded when the first editor is shown.
import { syntaxErrors } from "../editor.js";

let loading;
const load = () => (loading ??= import("../../editor.js").catch((err) => ((loading = undefined), Promise.reject(err))));

const nonce = () => document.querySelector('meta[name="csp-nonce"]')?.content ?? "";

/** create puts an editor into a box. It returns {replace(text), go(line, column), invalid(bool), destroy()}. */
export async function create(box, { text, latest, keywords, readOnly, placeholder, attributes }) {
  const cm = await load();
  const asked = new cm.Compartment(); // attributes that change
  const shown = (wrong) => cm.EditorView.contentAttributes.of({ ...attributes, tabindex: "0", "aria-invalid": wrong ? "true" : "false" });
  const view = new cm.EditorView({
    parent: box,
    state: cm.EditorState.create({ doc: text, extensions: [...extensions(cm, { latest, keywords, readOnly, placeholder }), asked.of(shown(false))] }),
  });
  return {
    replace(next) {
      if (next === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next }, annotations: outside(cm).of(true) });
    },
    go(line, column) {
      view.dispatch({ selection: { anchor: offset(view.state.doc, line, column) }, scrollIntoView: true });
      view.focus();
    },
    invalid: (wrong) => view.dispatch({ effects: asked.reconfigure(shown(wrong)) }),
    destroy: () => view.destroy(),
  };
}

// outside marks a change that did not come from the user's keys.
let mark;
const outside = (cm) => (mark ??= cm.Annotation.define());

function extensions(cm, { latest, keywords, readOnly, placeholder }) {
  const editing = readOnly ? [cm.EditorState.readOnly.of(true)] : [
    cm.history(), cm.closeBrackets(), cm.indentOnInput(), cm.linter((view) => lint(view, latest.current), { delay: 350 }), cm.lintGutter(),
    cm.keymap.of([...cm.closeBracketsKeymap, ...cm.historyKeymap, ...cm.lintKeymap, ...cm.completionKeymap, cm.indentWithTab]),
    leaving(cm), keywords ? cm.autocompletion({ override: [propose(cm, keywords)] }) : [], placeholder ? cm.placeholder(placeholder) : [],
  ];
  return [
    cm.EditorView.cspNonce.of(nonce()), cm.json(), cm.syntaxHighlighting(colours(cm)), look(cm), cm.lineNumbers(), cm.foldGutter(), cm.bracketMatching(),
    cm.highlightSpecialChars(), cm.drawSelection(), cm.highlightActiveLine(), cm.search({ top: true }), cm.indentUnit.of("  "), cm.EditorState.tabSize.of(2),
    cm.EditorView.lineWrapping, ...editing, cm.keymap.of([...cm.searchKeymap, ...cm.foldKeymap, ...cm.defaultKeymap]),
    cm.EditorView.updateListener.of((u) => {
      if (u.docChanged && !u.transactions.some((t) => t.annotation(outside(cm)))) latest.current.change(u.state.doc.toString());
    }),
  ];
}

// leaving: Tab indents, but after Esc it moves the focus on, until something is typed or the focus has left.
function leaving(cm) {
  return [
    cm.keymap.of([{ key: "Escape", run: (view) => (view.setTabFocusMode(true), false) }]),
    cm.EditorView.domEventHandlers({ blur: (e, view) => void view.setTabFocusMode(false) }),
    cm.EditorView.updateListener.of((u) => u.docChanged && u.view.setTabFocusMode(false)),
  ];
}

// lint tells what is wrong with the text: first as JSON, then by the coordinator's verdict.
async function lint(view, { judge, errors }) {
  const doc = view.state.doc;
  const text = doc.toString();
  let found = syntaxErrors(text);
  if (found.length === 0 && text.trim() !== "" && judge) {
    try {
      found = await judge(text);
    } catch (err) {
      if (view.state.doc !== doc) return [];
      found = [];
      errors([{ message: "The coordinator could not check it: " + err.message }]);
      return [];
    }
  }
  if (view.state.doc !== doc) return []; // typed on: the next verdict counts
  errors(found);
  return found.map((e) => {
    const from = offset(doc, e.line, e.column);
    return { from, to: Math.max(from, Math.min(doc.length, wordEnd(text, from))), severity: "error", message: e.path ? `${e.path}: ${e.message}` : e.message };
  });
}

function offset(doc, line = 1, column = 1) {
  const at = doc.line(Math.min(Math.max(1, line || 1), doc.lines));
  return Math.min(at.to, at.from + Math.max(0, (column || 1) - 1));
}

function wordEnd(text, from) {
  const word = /^(?:"(?:[^"\\\n]|\\.)*"?|[^\s,\]}]+)/.exec(text.slice(from, from + 300));
  return from + (word ? word[0].length : 1);
}

// propose offers the names of a schema's members, where a name is typed.
function propose(cm, keywords) {
  const options = keywords.map((k) => ({ label: `"${k.name}"`, apply: `"${k.name}": `, detail: k.detail, type: "property" }));
  return (context) => {
    const word = context.matchBefore(/"[\w$]*/);
    const node = cm.syntaxTree(context.state).resolveInner(context.pos, -1);
    const named = node.name === "PropertyName" || node.parent?.name === "PropertyName" || (node.name === "⚠" && node.parent?.name === "Object");
    if (!word || !named) return null;
    const closed = context.state.sliceDoc(context.pos, context.pos + 1) === '"';
    const rest = closed ? /^"\s*:?\s*/.exec(context.state.sliceDoc(context.pos, context.pos + 8))?.[0].length ?? 0 : 0;
    return { from: word.from, to: context.pos + rest, options, validFor: /^"[\w$]*"?$/ };
  };
}

// The colours are style.css's, so that they follow the theme.
const colours = (cm) => cm.HighlightStyle.define([
  { tag: cm.tags.propertyName, class: "j-name" }, { tag: cm.tags.string, class: "j-string" }, { tag: cm.tags.number, class: "j-number" },
  { tag: cm.tags.bool, class: "j-boolean" }, { tag: cm.tags.null, class: "j-null" },
]);

const look = (cm) => cm.EditorView.theme({
  "&": { backgroundColor: "var(--card)", color: "var(--text)", fontSize: "12px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "18px" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--side)", color: "var(--faint)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--hover) 60%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--picked)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--picked)", outline: "1px solid var(--line2)" },
  ".cm-placeholder": { color: "var(--faint)" },
  ".cm-tooltip": { backgroundColor: "var(--raise)", color: "var(--text)", border: "1px solid var(--line2)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--picked)", color: "var(--text)" },
  ".cm-panels": { backgroundColor: "var(--side)", color: "var(--text)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--card)", border: "1px solid var(--line2)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--raise)", border: "1px solid var(--line2)", borderRadius: "6px" },
  ".cm-specialChar": { color: "var(--warn)" },
});
