/** The webhooks of security context constraints over a store that holds the standard SCCs and their grants. */
import { Writable } from 'node:stream';
import { pino, type Logger } from 'pino';
import { createStore, type WritableStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { ApiError, notFound } from '../../src/kube/status.ts';
import type { JsonObject, UserInfo } from '../../src/kube/types.ts';
import { DEFAULT_CONFIGURATION, createPodSecurity } from '../../src/policy/psa/configuration.ts';
import { DEFAULT_EXEMPT_NAMESPACES, type SccSettings } from '../../src/policy/scc/mode.ts';
import {
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/standard.ts';
import { createMetrics, type Metrics } from '../../src/telemetry/metrics.ts';
import { createWebhooks, type WebhooksOptions } from '../../src/server/webhooks/index.ts';
import type { WebhookContext } from '../../src/server/webhook.ts';

export const RANGES = {
  'openshift.io/sa.scc.uid-range': '1000660000/10000',
  'openshift.io/sa.scc.mcs': 's0:c26,c5',
} as const;

/** Somebody without any rights but those of everybody. */
export const ALICE: UserInfo = { username: 'alice', groups: ['system:authenticated'] };

export interface SccRig {
  readonly store: WritableStore;
  readonly metrics: Metrics;
  /** What was logged, line by line. */
  readonly log: JsonObject[];
  /** Asks the webhook at that path, which may take some time in milliseconds, on behalf of that client. */
  ask(path: string, request: AdmissionRequest, timeoutMs?: number, client?: SccClient): Decision | Promise<Decision>;
  /** The series of a metric, as scraped. */
  series(name: string): Promise<string[]>;
}

/** What a webhook knows of its client. */
export type SccClient = Pick<WebhookContext, 'signal' | 'bodyBytes'>;

export interface SccRigOptions {
  readonly settings?: Partial<SccSettings>;
  readonly authorization?: WebhooksOptions['authorization'];
  readonly cluster?: Partial<WebhooksOptions['cluster']>;
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number;
}

export const SETTINGS: SccSettings = {
  mode: 'enforce',
  exemptNamespaces: DEFAULT_EXEMPT_NAMESPACES,
  compatibility: {},
  preferUserNamespaces: false,
};

export function createSccRig({ settings, authorization = 'rbac', cluster, now }: SccRigOptions = {}): SccRig {
  const store = createStore();
  for (const { scc } of STANDARD_SCCS) store.put('SecurityContextConstraints', scc);
  for (const role of STANDARD_CLUSTER_ROLES) store.put('ClusterRole', role);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) store.put('ClusterRoleBinding', binding);
  store.markSynced();
  const metrics = createMetrics({ version: '0.0.0' });
  const { log, logger } = createLogLines();
  const clock = now ?? ((): number => performance.now());
  const webhooks = createWebhooks({
    podSecurity: () => createPodSecurity(DEFAULT_CONFIGURATION),
    scc: { ...SETTINGS, ...settings },
    authorization,
    cluster: {
      get: (_kind, name) => Promise.reject(new ApiError(notFound({ group: '', resource: 'pods' }, name))),
      reviewAccess: () => Promise.reject(new Error('nobody answers')),
      ...cluster,
    },
    logger,
    metrics,
    now: clock,
  });
  return {
    store,
    metrics,
    log,
    ask(path, request, timeoutMs, client) {
      const webhook = webhooks.find((one) => one.path === path);
      if (!webhook) throw new RangeError(`no webhook at ${path}`);
      const deadlineMs = timeoutMs === undefined ? {} : { deadlineMs: clock() + timeoutMs };
      return webhook.decide(request, { store, now: clock, ...deadlineMs, ...client });
    },
    async series(name) {
      const text = await metrics.expose();
      return text.split('\n').filter((line) => line.startsWith(`${name}{`));
    },
  };
}

/** A logger whose lines can be read. */
export function createLogLines(): { readonly log: JsonObject[]; readonly logger: Logger } {
  const log: JsonObject[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      log.push(JSON.parse(chunk.toString()) as JsonObject);
      done();
    },
  });
  return { log, logger: pino({ base: null, errorKey: 'err' }, sink) };
}

/** A pod with one container, of the service account `default`. */
export function podOf(
  securityContext: JsonObject = {},
  { name = 'web', namespace = 'shop', ...spec }: JsonObject = {},
) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: { serviceAccountName: 'default', containers: [{ name: 'c', image: 'i', securityContext }], ...spec },
  };
}

/** A request about a pod in the namespace `shop`; what is not given is that of a create by Alice. */
export function podRequest(object: unknown, change: Partial<AdmissionRequest> = {}): AdmissionRequest {
  return {
    uid: '705ab4f5-6393-11e8-b7cc-42010a800002',
    kind: { group: '', version: 'v1', kind: 'Pod' },
    resource: { group: '', version: 'v1', resource: 'pods' },
    name: 'web',
    namespace: 'shop',
    operation: 'CREATE',
    userInfo: ALICE,
    object,
    oldObject: null,
    ...change,
  };
}
