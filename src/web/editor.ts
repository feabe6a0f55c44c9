/**
 * The playground's YAML editor. It is in a shadow root, so its styles need no exception in the content security policy.
 */
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint';
import { EditorState, type Text } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Position } from '../config/yaml.ts';

/** A message at a position in the text. */
export interface Marker extends Position {
  readonly severity: 'error' | 'warning';
  readonly message: string;
}

export interface Editor {
  setText(text: string): void;
  setMarkers(markers: readonly Marker[]): void;
  /** Moves the cursor to a position, scrolls to it and focuses the editor. */
  goTo(position: Position): void;
}

const THEME = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'var(--bg)', fontSize: '13px' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { color: 'var(--muted)', backgroundColor: 'var(--surface)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'var(--line)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--selection)',
  },
  '.cm-tooltip, .cm-panels': { color: 'var(--text)', backgroundColor: 'var(--surface)', borderColor: 'var(--border)' },
  '.cm-diagnostic': { fontFamily: 'var(--sans)', maxWidth: '32rem' },
});

const HIGHLIGHT = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.number, tags.bool, tags.null], color: 'var(--ok)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.meta, tags.labelName, tags.typeName, tags.keyword], color: 'var(--warn)' },
]);

interface EditorOptions {
  readonly text: string;
  onChange(text: string): void;
}

export function createEditor(host: HTMLElement, { text, onChange }: EditorOptions): Editor {
  const root = host.attachShadow({ mode: 'open' });
  const extensions = [
    lineNumbers(),
    lintGutter(),
    history(),
    drawSelection(),
    highlightActiveLine(),
    yaml(),
    syntaxHighlighting(HIGHLIGHT),
    keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
    EditorView.contentAttributes.of({ 'aria-label': 'Manifests in YAML or JSON', tabindex: '0' }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(update.state.doc.toString());
    }),
    THEME,
  ];
  const view = new EditorView({ state: EditorState.create({ doc: text, extensions }), parent: root, root });
  return {
    setText(next) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } });
    },
    setMarkers(markers) {
      view.dispatch(
        setDiagnostics(
          view.state,
          markers.map((marker) => toDiagnostic(marker, view.state.doc)),
        ),
      );
    },
    goTo(position) {
      const anchor = offsetOf(position, view.state.doc);
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: 'center' }) });
      view.focus();
    },
  };
}

/** Returns a mark from the position to the end of the line. The text may have changed since it was evaluated. */
function toDiagnostic({ severity, message, ...position }: Marker, document: Text): Diagnostic {
  const from = offsetOf(position, document);
  return { from, to: Math.max(from, document.lineAt(from).to), severity, message };
}

function offsetOf({ line, column }: Position, document: Text): number {
  const { from, to } = document.line(Math.min(line, document.lines));
  return Math.min(from + column - 1, to);
}
