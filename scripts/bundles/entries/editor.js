// What the JSON editor is made of: the parts of CodeMirror 6 that ui/lib/editor.js uses.
export {EditorState, EditorSelection, Compartment, Annotation, StateEffect, StateField} from "@codemirror/state";
export {
  EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, drawSelection,
  dropCursor, rectangularSelection, crosshairCursor, placeholder, tooltips, Decoration,
} from "@codemirror/view";
export {defaultKeymap, history, historyKeymap, indentWithTab, undo, redo, toggleTabFocusMode} from "@codemirror/commands";
export {
  HighlightStyle, syntaxHighlighting, bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit, syntaxTree,
} from "@codemirror/language";
export {json} from "@codemirror/lang-json";
export {linter, lintGutter, lintKeymap, setDiagnostics, forceLinting, forEachDiagnostic} from "@codemirror/lint";
export {autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap} from "@codemirror/autocomplete";
export {search, searchKeymap, highlightSelectionMatches} from "@codemirror/search";
export {tags} from "@lezer/highlight";
