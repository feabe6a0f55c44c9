/**
 * Prints `src/dev-cluster/http/protobuf/numbers/`: the numbers under which protobuf has the fields of the built-in
 * types, from the `generated.proto` files of k8s.io/api and k8s.io/apimachinery.
 *
 *     node scripts/protobuf-numbers.ts <folder of k8s.io/api> <folder of k8s.io/apimachinery>
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PACKAGES } from '../src/dev-cluster/fields/builtin/index.ts';
import { readTypes } from '../src/dev-cluster/fields/notation.ts';

const [api = '', apimachinery = ''] = process.argv.slice(2);
const NAMES = [
  'meta',
  'core',
  'apps',
  'batch',
  'rbac',
  'admissionregistration',
  'authentication',
  'authorization',
  'autoscaling',
  'coordination',
  'events',
  'networking',
  'node',
  'policy',
  'scheduling',
];
const types = readTypes(PACKAGES);

for (const name of NAMES) {
  const folder = name === 'meta' ? join(apimachinery, 'pkg/apis/meta/v1') : join(api, name, 'v1');
  const messages = readFileSync(join(folder, 'generated.proto'), 'utf8').matchAll(/^message (\w+) \{\n(.*?)^\}/gms);
  const lines = [...messages].flatMap(([, message = '', body = '']) => lineOf(name, message, body));
  const target = join(import.meta.dirname, `../src/dev-cluster/http/protobuf/numbers/${name}.ts`);
  const head = `/** The numbers of the fields of ${name}/v1. Printed by scripts/protobuf-numbers.ts. */`;
  writeFileSync(target, `${head}\nexport const ${name} = \`\n${lines.join('\n')}\n\`;\n`);
}

/** A message: its fields in the order of their numbers, `-` where there is none, `+` before embedded structs. */
function lineOf(name: string, message: string, body: string): string[] {
  const fields = types.get(`${name}/v1.${message}`)?.fields;
  if (!fields || fields.size === 0 || message.endsWith('List')) return [];
  const names: string[] = [];
  for (const [, type = '', field = '', number = ''] of body.matchAll(
    /^ {2}(?:optional|repeated) ([\w.]+) (\w+) = (\d+)/gm,
  )) {
    const json = field.charAt(0).toLowerCase() + field.slice(1);
    const embedded = types.has(`${name}/v1.${type}`) ? `+${type}` : '-';
    names[Number(number) - 1] = fields.has(json) ? json : embedded;
  }
  for (const [, field = '', number = ''] of body.matchAll(/^ {2}map<[^>]*> (\w+) = (\d+)/gm)) {
    names[Number(number) - 1] = field;
  }
  return names.length === 0 ? [] : [`${message} ${Array.from(names, (one) => one ?? '-').join(' ')}`];
}
