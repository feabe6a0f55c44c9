/** Where the development cluster answers otherwise than the recorded API server, and why that is right. */
import { isObject, type JsonObject } from '../../src/kube/types.ts';

interface Exception {
  readonly reason: string;
  /** Reduces both answers to what has to be equal. */
  readonly reduce?: (answer: unknown) => unknown;
  /** How often a webhook may be called again; exactly as recorded unless said otherwise. */
  readonly calls?: 'again';
}

/** Resources that the development cluster leaves out: nothing that it is for needs them. */
const LEFT_OUT_RESOURCES: ReadonlySet<unknown> = new Set([
  'bindings', // pods/binding does the same
  'componentstatuses', // there are no components
  'nodes/proxy', // there is no kubelet to be proxied to
  'pods/proxy', // no pod runs
  'serviceaccounts/token', // there are no tokens
  'services/proxy', // no pod runs
]);

const LEFT_OUT_GROUPS: ReadonlySet<unknown> = new Set([
  'apiregistration.k8s.io', // nothing is aggregated
  'autoscaling', // nothing runs that could be scaled by its load
  'certificates.k8s.io', // nothing signs
  'networking.k8s.io', // no traffic flows
  'storage.k8s.io', // no volume is made
  'discovery.k8s.io', // no traffic flows
  'resource.k8s.io', // there are no devices
  'flowcontrol.apiserver.k8s.io', // requests are not queued
]);

const EXCEPTIONS: Readonly<Record<string, Exception>> = {
  'two validating webhooks deny': {
    reason: 'the recorded answer is that of the faster webhook; here the first one in order counts',
    reduce: () => 'denied',
  },
  'validating webhook: reset, failurePolicy Fail': {
    reason: 'a call over a kept connection that breaks is made once more over a new one',
    calls: 'again',
  },
  'validating webhook: reset, failurePolicy Ignore': {
    reason: 'a call over a kept connection that breaks is made once more over a new one',
    calls: 'again',
  },
  'api versions': { reason: 'the address is that of the server', reduce: without('serverAddressByClientCIDRs') },
  'api groups': { reason: 'groups are left out', reduce: withoutItems('name', LEFT_OUT_GROUPS) },
  'core resources': { reason: 'resources are left out', reduce: withoutItems('name', LEFT_OUT_RESOURCES) },
  'aggregated discovery of /api': {
    reason: 'resources are left out',
    reduce: (answer) =>
      withoutItems('subresource', new Set(['proxy', 'token']))(withoutItems('resource', LEFT_OUT_RESOURCES)(answer)),
  },
  version: {
    reason: 'it is another program',
    reduce: without('gitVersion', 'gitCommit', 'goVersion', 'compiler', 'platform'),
  },
};

export function exceptionFor(name: string): Required<Omit<Exception, 'calls'>> & Pick<Exception, 'calls'> {
  const found = Object.hasOwn(EXCEPTIONS, name) ? EXCEPTIONS[name] : undefined;
  return { reason: '', reduce: (answer) => answer, ...found };
}

/** Takes fields out, wherever they are. */
function without(...fields: readonly string[]): (value: unknown) => unknown {
  return (value) => edit(value, (object) => Object.entries(object).filter(([name]) => !fields.includes(name)));
}

/** Takes items out of lists that have one of the values in a field; lists that are empty then go, too. */
function withoutItems(field: string, values: ReadonlySet<unknown>): (value: unknown) => unknown {
  return (value) => {
    const kept = (item: unknown): boolean => !isObject(item) || !values.has(item[field]);
    return edit(value, (object) =>
      Object.entries(object)
        .map(([name, item]) => [name, Array.isArray(item) ? item.filter(kept) : item] as const)
        .filter(([, item]) => !Array.isArray(item) || item.length > 0),
    );
  };
}

function edit(value: unknown, entries: (object: JsonObject) => (readonly [string, unknown])[]): unknown {
  if (Array.isArray(value)) return value.map((item) => edit(item, entries));
  if (!isObject(value)) return value;
  return Object.fromEntries(entries(value).map(([name, item]) => [name, edit(item, entries)]));
}
