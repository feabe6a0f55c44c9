/** Random mutations of JSON objects. */
import fc, { type Arbitrary } from 'fast-check';
import type { JsonObject } from '../../src/kube/types.ts';

/** A change to one member. `where` is the index of the member among all members at any depth, modulo their number. */
export type Mutation =
  | { readonly where: number; readonly remove: true }
  | { readonly where: number; readonly repeat: true }
  | { readonly where: number; readonly value: unknown }
  | { readonly where: number; readonly member: readonly [name: string, value: unknown] };

const nested = (depth: number, open: string, close: string, core: string): unknown =>
  JSON.parse(open.repeat(depth) + core + close.repeat(depth)) as unknown;

/** Values of all types, with boundary values for numbers and strings. */
const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, 1, -1, 2.5, 80, 1000, 65535, 2 ** 31, 2 ** 53, 2 ** 63, 1e300],
  ...['', 'x', 'ALL', 'NET_ADMIN', 'windows', 'Unconfined', 'RuntimeDefault', 'Localhost', 'Unmasked', 'spc_t'],
  ...[
    'runtime/default',
    'localhost/',
    'unconfined',
    '10.0.0.1',
    '__proto__',
    'é\u0000\u{1F600}\ud800',
    'n'.repeat(300),
  ],
  ...[[], {}, [null], [[]], ['ALL'], [{}], { type: 'Unconfined' }, { name: 'windows' }, { hostPath: { path: '/' } }],
  nested(40, '[', ']', ''),
  nested(40, '{"a":', '}', '1'),
];

/** Members that affect decisions, and names with a special meaning in JavaScript. */
const MEMBERS: readonly (readonly [name: string, value: unknown])[] = [
  ...(['hostNetwork', 'hostPID', 'hostIPC', 'hostUsers', 'privileged', 'runAsNonRoot'] as const).flatMap((name) => [
    [name, true] as const,
    [name, false] as const,
  ]),
  ...([true, false] as const).map((value) => ['allowPrivilegeEscalation', value] as const),
  ...[0, 1000].map((value) => ['runAsUser', value] as const),
  ['runAsGroup', 0],
  ['fsGroup', 5],
  ['supplementalGroups', [0]],
  ['readOnlyRootFilesystem', false],
  ['procMount', 'Unmasked'],
  ['os', { name: 'windows' }],
  ['windowsOptions', { hostProcess: true }],
  ['securityContext', {}],
  ['securityContext', { privileged: true }],
  ['seccompProfile', {}],
  ['seccompProfile', { type: 'Unconfined' }],
  ['appArmorProfile', { type: 'Unconfined' }],
  ['seLinuxOptions', { type: 'spc_t' }],
  ['capabilities', { add: ['SYS_ADMIN'] }],
  ['capabilities', { drop: ['all'] }],
  ['sysctls', [{ name: 'kernel.msgmax', value: '1' }]],
  ['ports', [{ hostPort: 80 }]],
  ['volumes', [{ name: 'v', hostPath: { path: '/' } }]],
  ['volumes', [{ name: 'v', nfs: {}, emptyDir: {} }]],
  ['livenessProbe', { httpGet: { host: '10.0.0.1', port: 80 } }],
  ['lifecycle', { preStop: { tcpSocket: { host: 'x', port: 'http' } } }],
  ['ephemeralContainers', [{ name: 'debug', image: 'i', securityContext: { privileged: true } }]],
  ['initContainers', [{ name: 'first', image: 'i', restartPolicy: 'Always' }]],
  ['runtimeClassName', 'gvisor'],
  ['schedulingGates', [{ name: 'g' }]],
  ['HostNetwork', true],
  ['__proto__', { privileged: true }],
  ['constructor', { prototype: { privileged: true } }],
  ['toString', null],
  ['hasOwnProperty', 1],
];

const where = fc.nat({ max: 400 });

const mutation: Arbitrary<Mutation> = fc.oneof(
  { weight: 2, arbitrary: where.map((index) => ({ where: index, remove: true as const })) },
  { weight: 1, arbitrary: where.map((index) => ({ where: index, repeat: true as const })) },
  {
    weight: 3,
    arbitrary: fc.tuple(where, fc.constantFrom(...VALUES)).map(([index, value]) => ({ where: index, value })),
  },
  {
    weight: 4,
    arbitrary: fc.tuple(where, fc.constantFrom(...MEMBERS)).map(([index, member]) => ({ where: index, member })),
  },
);

/** Mutations. The list is often empty, so generated objects are also sent unchanged. */
export const mutations: Arbitrary<readonly Mutation[]> = fc.oneof(
  { weight: 3, arbitrary: fc.constant([]) },
  { weight: 2, arbitrary: fc.array(mutation, { minLength: 1, maxLength: 1 }) },
  { weight: 2, arbitrary: fc.array(mutation, { minLength: 2, maxLength: 5 }) },
);

type Holder = Record<string, unknown> | unknown[];

/** Returns a mutated copy. */
export function mutate(object: JsonObject, changes: readonly Mutation[]): JsonObject {
  const mutated = structuredClone(object) as Record<string, unknown>;
  for (const change of changes) {
    if ('member' in change) {
      const holders = holdersIn(mutated);
      const holder = holders[change.where % holders.length] ?? mutated;
      setMember(holder, change.member[0], structuredClone(change.member[1]));
    } else changeMember(mutated, change);
  }
  return mutated;
}

function changeMember(root: Record<string, unknown>, change: Exclude<Mutation, { member: unknown }>): void {
  const places = [root, ...holdersIn(root)].flatMap((holder) => getKeys(holder).map((key) => [holder, key] as const));
  const place = places[change.where % Math.max(1, places.length)];
  if (place === undefined) return;
  const [holder, key] = place;
  if ('value' in change) setMember(holder, key, structuredClone(change.value));
  else if ('repeat' in change) {
    if (Array.isArray(holder)) holder.push(structuredClone(holder[Number(key)]));
  } else if (Array.isArray(holder)) holder.splice(Number(key), 1);
  else Reflect.deleteProperty(holder, key);
}

/** Returns all objects and lists below a value. */
function holdersIn(value: Holder): Holder[] {
  return getKeys(value).flatMap((key) => {
    const member = getMember(value, key);
    return typeof member === 'object' && member !== null ? below(member as Holder) : [];
  });
}

function below(holder: Holder): Holder[] {
  return [holder, ...holdersIn(holder)];
}

function getKeys(holder: Holder): readonly string[] {
  return Object.keys(holder);
}

function getMember(holder: Holder, key: string): unknown {
  return Array.isArray(holder) ? holder[Number(key)] : holder[key];
}

function setMember(holder: Holder, key: string, value: unknown): void {
  if (Array.isArray(holder)) {
    const index = Number(key);
    if (Number.isInteger(index) && index < holder.length) holder[index] = value;
    else holder.push(value);
  } else Object.defineProperty(holder, key, { value, writable: true, enumerable: true, configurable: true });
}
