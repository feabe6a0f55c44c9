import { CRDS } from '../../src/install/index.ts';
import { cell, code, formatMarkdownTable } from './markdown.ts';

const HEAD = `# Custom resources

This page lists the fields of the custom resources, which \`kubectl explain\` also prints. \`npm run docs\` generates this page.
`;

/** The members of a structural schema that the reference documents. */
interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
}

interface Definition {
  readonly spec: {
    readonly group: string;
    readonly scope: string;
    readonly names: { readonly kind: string; readonly plural: string; readonly shortNames?: readonly string[] };
    readonly versions: readonly { readonly name: string; readonly schema?: { readonly openAPIV3Schema: Schema } }[];
  };
}

/** The page that contains the fields of the PortcullisConfiguration. */
export const SETTINGS_PAGE = 'docs/reference/settings.md';
const SETTINGS_KIND = 'PortcullisConfiguration';

/** Fields that all objects have. */
const COMMON = new Set(['apiVersion', 'kind', 'metadata']);

export function formatResourceReference(): string {
  return [HEAD, ...(CRDS as readonly Definition[]).flatMap(({ spec }) => printDefinition(spec))].join('\n');
}

function printDefinition({ group, scope, names, versions }: Definition['spec']): string[] {
  const [version] = versions;
  const { name = '', schema: definition } = version ?? {};
  const { properties = {}, description = '' } = definition?.openAPIV3Schema ?? {};
  const fields = Object.entries(properties).filter(([field]) => !COMMON.has(field));
  const shortNames = names.shortNames ? `, short name ${names.shortNames.map(code).join(', ')}` : '';
  return [
    `## ${names.kind}\n`,
    `${code(`${names.plural}.${group}`)}, version ${code(name)}, scope ${scope}${shortNames}.${description === '' ? '' : ` ${cell(description)}`}\n`,
    names.kind === SETTINGS_KIND
      ? '[Settings](settings.md#fields) describes its fields.\n'
      : printFields(fields.flatMap(([field, schema]) => printField(field, schema))),
  ];
}

function printFields(rows: readonly (readonly string[])[]): string {
  return formatMarkdownTable(['field', 'type', 'description'], rows);
}

/** Replaces the table of fields in the page about settings. */
export function replaceSettingsTable(page: string): string {
  const definition = (CRDS as readonly Definition[]).find(({ spec }) => spec.names.kind === SETTINGS_KIND);
  const { spec } = definition?.spec.versions[0]?.schema?.openAPIV3Schema.properties ?? {};
  const rows = Object.entries(spec?.properties ?? {}).flatMap(([field, schema]) => printField(field, schema));
  return page.replace(/^\| field \| type \|[^\n]*\n(?:\|[^\n]*\n)*/m, () => printFields(rows));
}

function printField(path: string, schema: Schema): (readonly string[])[] {
  const { items, additionalProperties } = schema;
  const row = [code(path), typeName(schema), describe(schema)];
  const values = typeof additionalProperties === 'object' ? additionalProperties : undefined;
  const [nested, suffix] = items ? [items, '[]'] : [values ?? schema, values ? '.*' : ''];
  const fields = Object.entries(nested.properties ?? {});
  // The parent describes fields without a description.
  const rows = row[2] === '' ? [] : [row];
  return [...rows, ...fields.flatMap(([field, one]) => printField(`${path}${suffix}.${field}`, one))];
}

function typeName({ type = '', items, additionalProperties }: Schema): string {
  if (items) return `${typeName(items)}[]`;
  return typeof additionalProperties === 'object' ? `map of ${typeName(additionalProperties)}` : type;
}

function describe({ description = '', enum: values, default: fallback }: Schema): string {
  const parts = [
    cell(description),
    values ? `One of ${values.map((value) => code(JSON.stringify(value))).join(', ')}.` : '',
    fallback === undefined ? '' : `Default: ${code(JSON.stringify(fallback))}.`,
  ];
  return parts
    .filter((part) => part !== '')
    .map((part) => (/[.!?]$/.test(part) ? part : `${part}.`))
    .join(' ');
}
