// The query editor. It lives in a shadow root: there CodeMirror's styles are constructed sheets, which a
// Content-Security-Policy without 'unsafe-inline' lets through; in the document they would be <style> elements.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, toggleComment } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { EditorView, drawSelection, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

// Chrome types over a selection with style attributes, which the policy forbids (and reports): so it is done here.
const typedOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to } = view.state.selection.main;
    if (event.inputType !== "insertText" || from === to || view.composing || event.data === null) return false;
    const insert = () => view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type" });
    const handled = view.state.facet(EditorView.inputHandler).some((one) => one(view, from, to, event.data, insert));
    if (!handled) view.dispatch(insert());
    event.preventDefault();
    return true;
  },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--code-type)" },
]);

const look = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "0.875rem" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mono)", padding: "0.5rem 0", caretColor: "var(--text)", minHeight: "6rem" },
  ".cm-scroller": { maxHeight: "40vh", overflow: "auto", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--text-faint)", border: "none" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "none" },
  ".cm-placeholder": { color: "var(--text-faint)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px",
    boxShadow: "var(--shadow)",
  },
  ".cm-tooltip-autocomplete ul": { fontFamily: "var(--mono)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--text-faint)", fontStyle: "normal", marginLeft: "1em" },
});

/**
 * An editor in `host` (an element without a shadow root yet).
 * `run` is called on Ctrl/Cmd-Enter with the selected text, or all of it; `changed` with the text.
 */
export function createEditor(host, { text, label, hint, run, changed }) {
  const root = host.attachShadow({ mode: "open" });
  const schema = new Compartment();
  const language = (tables) => sql({ dialect: PostgreSQL, schema: tables, upperCaseKeywords: true });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (run(selected()), true) }])),
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), autocompletion(), typedOver,
        placeholder(hint), EditorView.lineWrapping, look, syntaxHighlighting(colours), schema.of(language({})),
        keymap.of([
          ...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap,
          { key: "Mod-/", run: toggleComment },
        ]),
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
        EditorView.updateListener.of((update) => update.docChanged && changed(view.state.doc.toString())),
      ],
    }),
  });

  function selected() {
    const { from, to } = view.state.selection.main;
    return from === to ? view.state.doc.toString() : view.state.sliceDoc(from, to);
  }

  return {
    selected,
    focus: () => view.focus(),
    /** `tables`: {"namespace": {"table": ["column", …]}} */
    complete: (tables) => view.dispatch({ effects: schema.reconfigure(language(tables)) }),
    replace: (doc) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: doc } }),
    insert: (doc) => view.dispatch(view.state.replaceSelection(doc)),
    close: () => view.destroy(),
  };
}
