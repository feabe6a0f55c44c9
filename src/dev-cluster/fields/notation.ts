/**
 * Reads the notation in which `builtin/` lists the types of Kubernetes:
 *
 *     PodSpec                                     a struct; "atomic" behind its name: owned as a whole
 *       + VolumeSource                            the fields of another struct, embedded
 *       containers! []Container by=name           "!": written even if empty; a list whose items are told apart by name
 *       dnsPolicy ~DNSPolicy                      a string that Go names DNSPolicy
 *       replicas *int32                           "*": a pointer, so that 0 differs from absent
 *       limits map~ResourceList quantity          a map that Go names ResourceList; "map[Key] …": its keys have a name
 *       finalizers []string set patch=merge       a set; how strategic merge patches treat it, with its merge key
 *       claimRef *ObjectReference granular        "atomic", "granular": owned otherwise than its type says
 *       protocol ~Protocol ="TCP"                 what an absent value stands for
 */
import type { TypePackage } from './builtin/index.ts';
import type { Field, FieldType, ListType, ObjectType, PatchStrategy, ScalarKind } from './types.ts';

interface Block {
  readonly pkg: TypePackage;
  readonly name: string;
  readonly atomic: boolean;
  readonly lines: string[];
}

/** A struct whose fields are filled in later, since types refer to each other. */
interface Struct extends ObjectType {
  readonly fields: Map<string, Field>;
}

type Blocks = ReadonlyMap<string, Block>;
type Structs = ReadonlyMap<string, ObjectType>;

/** The structs of all packages by path and name, such as `core/v1.PodSpec`. */
export function readTypes(packages: readonly TypePackage[]): ReadonlyMap<string, ObjectType> {
  const blocks = new Map(packages.flatMap(blocksOf).map((block) => [`${block.pkg.path}.${block.name}`, block]));
  const structs = new Map([...blocks].map(([path, block]) => [path, structOf(block)]));
  for (const [path, block] of blocks) {
    const struct = found(structs, path);
    for (const [name, field] of fieldsOf(block, blocks, structs)) struct.fields.set(name, field);
  }
  return structs;
}

function blocksOf(pkg: TypePackage): Block[] {
  const blocks: Block[] = [];
  for (const line of pkg.text.split('\n')) {
    if (line.startsWith('  ')) blocks.at(-1)?.lines.push(line.trim());
    else if (line !== '') {
      const [name = '', flag] = line.split(' ');
      blocks.push({ pkg, name, atomic: flag === 'atomic', lines: [] });
    }
  }
  return blocks;
}

function structOf({ pkg, name, atomic }: Block): Struct {
  const goType = goName(pkg, name);
  return { kind: 'object', fields: new Map(), atomic, name: `${pkg.openApiPrefix}.${name}`, goType };
}

function fieldsOf(block: Block, blocks: Blocks, structs: Structs): [string, Field][] {
  return block.lines.flatMap((line): [string, Field][] => {
    const [name = '', ...words] = line.split(' ');
    if (name !== '+') return [[name.replace('!', ''), readField(name.endsWith('!'), words, block.pkg, structs)]];
    const embedded = found(blocks, pathOf(block.pkg, words[0] ?? ''));
    return fieldsOf(embedded, blocks, structs).map(([inner, field]) => [inner, { ...field, embedded: embedded.name }]);
  });
}

function readField(always: boolean, words: readonly string[], pkg: TypePackage, structs: Structs): Field {
  const isFlag = (word: string): boolean => /^(by=|patch=|=|set$|atomic$|granular$)/.test(word);
  const flags = words.filter(isFlag);
  const name = words.filter((word) => !isFlag(word)).join(' ');
  const value = flags.find((flag) => flag.startsWith('='))?.slice(1);
  const patch = flags.find((flag) => flag.startsWith('patch='))?.slice('patch='.length);
  return {
    type: withFlags(typeOf(name.replace(/^\*/, ''), pkg, structs), flags),
    always,
    pointer: name.startsWith('*'),
    ...(patch === undefined ? {} : { patch: readStrategy(patch) }),
    ...(value === undefined ? {} : { default: JSON.parse(value) as unknown }),
  };
}

function readStrategy(text: string): PatchStrategy {
  const [strategies = '', mergeKey] = text.split(':');
  return {
    strategies: strategies.split(',') as PatchStrategy['strategies'],
    ...(mergeKey === undefined ? {} : { mergeKey }),
  };
}

function withFlags(type: FieldType, flags: readonly string[]): FieldType {
  const keys = flags.find((flag) => flag.startsWith('by='))?.slice('by='.length);
  if (type.kind === 'list' && keys !== undefined) return { ...type, listType: 'map', keys: keys.split(',') };
  if (type.kind === 'list' && flags.includes('set')) return { ...type, listType: 'set' };
  if (type.kind === 'object' && flags.includes('atomic')) return { ...type, atomic: true };
  if (type.kind === 'object' && flags.includes('granular')) return { ...type, atomic: false };
  return type;
}

const GO_TYPES: Readonly<Record<ScalarKind, string>> = {
  string: 'string',
  boolean: 'bool',
  int32: 'int32',
  int64: 'int64',
  number: 'float64',
  'int-or-string': 'intstr.IntOrString',
  quantity: 'resource.Quantity',
  time: 'v1.Time',
  'micro-time': 'v1.MicroTime',
  duration: 'v1.Duration',
  bytes: '[]uint8',
};

function typeOf(name: string, pkg: TypePackage, structs: Structs): FieldType {
  if (name === 'any') return { kind: 'any', granular: false, goType: 'interface {}' };
  if (name.startsWith('~')) return { kind: 'scalar', scalar: 'string', goType: goName(pkg, name.slice(1)) };
  if (name.startsWith('[]')) return listOf(typeOf(name.slice(2), pkg, structs));
  if (name.startsWith('map')) {
    const [head = '', ...rest] = name.split(' ');
    const values = typeOf(rest.join(' '), pkg, structs);
    const goType = mapName(head, values, pkg);
    return { kind: 'object', fields: new Map(), additional: values, atomic: false, goType };
  }
  if (isScalarKind(name)) return { kind: 'scalar', scalar: name, goType: GO_TYPES[name] };
  return found(structs, pathOf(pkg, name));
}

function mapName(head: string, values: FieldType, pkg: TypePackage): string {
  if (head.startsWith('map~')) return goName(pkg, head.slice('map~'.length));
  const key = /\[(.*)\]/.exec(head)?.[1];
  return `map[${key === undefined ? 'string' : goName(pkg, key)}]${values.goType}`;
}

function listOf(items: FieldType): ListType {
  return { kind: 'list', items, listType: 'atomic', keys: [], goType: `[]${items.goType}` };
}

function isScalarKind(name: string): name is ScalarKind {
  return Object.hasOwn(GO_TYPES, name);
}

/** The Go type as its package prints it: `v1.PodSpec`; a name with a dot has its package already. */
function goName(pkg: TypePackage, name: string): string {
  return name.includes('.') ? name : `${pkg.version}.${name}`;
}

function pathOf(pkg: TypePackage, name: string): string {
  return name.includes('/') ? name : `${pkg.path}.${name}`;
}

function found<T>(table: ReadonlyMap<string, T>, path: string): T {
  const value = table.get(path);
  if (value === undefined) throw new Error(`the built-in types name ${path}, which is not among them`);
  return value;
}
