/**
 * Templates are manifests in which some values are slots: texts that are turned into actions of the template language
 * once the manifest is printed.
 */
import type { JsonObject } from '../../kube/types.ts';

/** Stands for what an expression prints; it may be part of a text. */
export function print(expression: string): string {
  return `«${expression}»`;
}

/** Stands for a whole value that is kept in the values of the chart. */
export function value(expression: string): string {
  return `«value ${expression}»`;
}

/** The same for a field that is left out where the value is empty; in a list for some more items. */
export function optional(expression: string): string {
  return `«with ${expression}»`;
}

/** A member that stands for some more. */
export function more(expression: string): JsonObject {
  return { '«more»': `«${expression}»` };
}

/** Items of a list that are there on a condition. */
export function when<T>(condition: string, items: readonly T[]): readonly (T | string)[] {
  return [`«if ${condition}»`, ...items, '«end»'];
}

/** A printed manifest as a template. */
export function toTemplate(yaml: string): string {
  return yaml
    .replaceAll('{{', '{{ "{{" }}')
    .replaceAll(/^( *)- «(if [^»]+|end)»\n/gm, '$1{{- $2 }}\n')
    .replaceAll(/^( *)- «with ([^»]+)»\n/gm, (_all, indent: string, expression: string) =>
      lines(indent, [`{{- with ${expression} }}`, `{{- toYaml . | nindent ${indent.length} }}`, '{{- end }}']),
    )
    .replaceAll(/^( *)([\w-]+): «with ([^»]+)»\n/gm, (_all, indent: string, key: string, expression: string) =>
      lines(indent, [
        `{{- with ${expression} }}`,
        `${key}:`,
        `  {{- toYaml . | nindent ${indent.length + 2} }}`,
        '{{- end }}',
      ]),
    )
    .replaceAll(/^( *)([\w-]+): «value ([^»]+)»\n/gm, (_all, indent: string, key: string, expression: string) =>
      lines(indent, [`${key}:`, `  {{- toYaml ${expression} | nindent ${indent.length + 2} }}`]),
    )
    .replaceAll(/^( *)«more»: «([^»]+)»\n/gm, (_all, indent: string, expression: string) =>
      lines(indent, [`{{- with ${expression} }}`, `{{- toYaml . | nindent ${indent.length} }}`, '{{- end }}']),
    )
    .replaceAll(/«([^»]+)»/g, '{{ $1 }}');
}

function lines(indent: string, texts: readonly string[]): string {
  return texts.map((text) => `${indent}${text}\n`).join('');
}
