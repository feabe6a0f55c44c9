/** Creates the SCC webhooks with a store that contains the standard SCCs and their grants. */
import { SCC_REGISTERED_ANNOTATION } from '../../src/api/webhooks.ts';
import { createStore, type Store, type WritableStore } from '../../src/cluster/store.ts';
import { createDefaultSettings, decodeSettings } from '../../src/config/portcullis-configuration.ts';
import type { Settings } from '../../src/config/settings.ts';
import { createFailsClosed } from '../../src/controllers/required-webhooks.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import { ApiError, notFound } from '../../src/kube/status.ts';
import type { JsonObject, UserInfo } from '../../src/kube/types.ts';
import { createPodSecurity, DEFAULT_CONFIGURATION, DEFAULT_FIELDS } from '../../src/policy/psa/index.ts';
import {
  DEFAULT_EXEMPT_NAMESPACES,
  type SccSettings,
  STANDARD_CLUSTER_ROLE_BINDINGS,
  STANDARD_CLUSTER_ROLES,
  STANDARD_SCCS,
} from '../../src/policy/scc/index.ts';
import { answerAfterMs } from '../../src/server/limits.ts';
import type { WebhooksOptions } from '../../src/server/services.ts';
import type { Webhook, WebhookContext } from '../../src/server/webhook.ts';
import { createWebhooks, WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { createRecorder, type Recorder } from './recorder.ts';

export const RANGES = {
  'openshift.io/sa.scc.uid-range': '1000660000/10000',
  'openshift.io/sa.scc.mcs': 's0:c26,c5',
} as const;

/** A user who has only the grants of all authenticated users. */
export const ALICE: UserInfo = { username: 'alice', groups: ['system:authenticated'] };

export interface SccTestWebhooks extends Omit<Recorder, 'logger'> {
  readonly store: WritableStore;
  /** Calls the webhook at a path with a timeout in milliseconds. */
  decide(path: string, request: AdmissionRequest, timeoutMs?: number, client?: SccClient): Promise<Decision>;
  /** Stores the namespace `shop`, including ranges. */
  putNamespace(labels?: Readonly<Record<string, string>>): void;
  /** Returns the lines of a metric in the exposition format. */
  series(name: string): Promise<string[]>;
}

/** The properties of a client connection. */
export type SccClient = Pick<WebhookContext, 'getSignal' | 'measure' | 'address'>;

export interface SccRigOptions {
  readonly settings?: Partial<SccSettings>;
  readonly authorization?: Settings['scc']['authorization'];
  readonly workloadResources?: Settings['workloadResources'];
  /** The OLM hardening mode. Default: `off`. */
  readonly olmHardening?: Settings['olm']['hardening']['mode'];
  /** True if webhooks fail open where the floor decides. Default: false. */
  readonly failsOpen?: boolean;
  /** True if the store initially lacks the standard SCCs because a controller creates them. */
  readonly isNewInstallation?: boolean;
  readonly podSecurity?: ReturnType<WebhooksOptions['podSecurity']>;
  /** The defaults for new pods. Default: none. */
  readonly podDefaults?: Settings['defaults'];
  /** The settings for exceptions. Default: no exceptions apply. */
  readonly exceptions?: Settings['exceptions'];
  readonly cluster?: Partial<WebhooksOptions['cluster']>;
  /** True if all clients are known to be API servers. Default: true. */
  readonly areClientsKnown?: boolean;
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number;
}

const DEFAULT_SETTINGS = createDefaultSettings({ controllers: [], namespace: 'portcullis' });

const SETTINGS: SccSettings = {
  mode: 'enforce',
  exemptNamespaces: DEFAULT_EXEMPT_NAMESPACES,
  compatibility: 'portcullis',
  preferUserNamespaces: false,
};

/** Options that enable all webhooks for pods. */
export const ALL_WEBHOOKS: SccRigOptions = {
  settings: { exemptNamespaces: [] },
  podDefaults: { mode: 'apply', fields: DEFAULT_FIELDS, namespaceSelector: {}, exemptNamespaces: [] },
  olmHardening: 'fill',
};

/** Returns the inputs of reviews of the settings. */
export function settingsDeps(store: Store): Pick<WebhooksOptions, 'readSettings' | 'createFailsClosed'> {
  const service = { namespace: 'portcullis', name: 'portcullis' };
  const scope = { store, service, version: '0.0.0', features: { scc: true, kubelet: false, olm: false } };
  return {
    readSettings(object) {
      const type = { apiVersion: 'config.portcullis.dev/v1alpha1', kind: 'PortcullisConfiguration' };
      const metadata = { name: 'cluster' };
      const decoded = decodeSettings(
        { ...type, metadata, ...(object as JsonObject) },
        { controllers: [], namespace: '' },
      );
      return 'settings' in decoded ? decoded.settings : undefined;
    },
    createFailsClosed: (settings) => createFailsClosed(WEBHOOK_REGISTRATIONS, settings, scope),
  };
}

/** Creates all webhooks, and adds the standard SCCs to their store. */
export function createTestWebhooks(
  store: WritableStore,
  {
    settings,
    authorization = 'rbac',
    workloadResources = [],
    olmHardening = 'off',
    failsOpen = false,
    isNewInstallation = false,
    podSecurity = createPodSecurity(DEFAULT_CONFIGURATION),
    podDefaults = DEFAULT_SETTINGS.defaults,
    exceptions = DEFAULT_SETTINGS.exceptions,
    cluster,
    areClientsKnown = true,
    now = () => performance.now(),
  }: SccRigOptions,
  { logger, metrics }: Recorder = createRecorder('info'),
): readonly Webhook[] {
  putRegistration(store);
  if (!isNewInstallation) putStandardSccs(store);
  const current: Settings = {
    ...DEFAULT_SETTINGS,
    workloadResources,
    exceptions,
    scc: { ...DEFAULT_SETTINGS.scc, ...SETTINGS, ...settings, authorization },
    olm: { ...DEFAULT_SETTINGS.olm, hardening: { mode: olmHardening } },
    defaults: podDefaults,
    webhooks: { ...DEFAULT_SETTINGS.webhooks, failurePolicy: failsOpen ? 'Ignore' : 'Fail' },
  };
  return createWebhooks({
    settings: () => current,
    podSecurity: () => podSecurity,
    ...settingsDeps(store),
    installation: { namespace: 'portcullis', version: '0.0.0' },
    restoresStandardSccs: () => isNewInstallation,
    cluster: {
      get(kind, name, namespace) {
        const object = store.get(kind, name, namespace);
        if (object) return Promise.resolve(object);
        return Promise.reject(new ApiError(notFound({ group: '', resource: 'pods' }, name)));
      },
      reviewAccess: () => Promise.reject(new Error('no SubjectAccessReviews in this test')),
      ...cluster,
    },
    logger,
    metrics,
    areClientsKnown,
    now,
  });
}

export function createSccTestWebhooks(options: SccRigOptions = {}): SccTestWebhooks {
  const store = createStore();
  const recorder = createRecorder('info');
  const { log, metrics } = recorder;
  const { now: clock = () => performance.now() } = options;
  const webhooks = createTestWebhooks(store, options, recorder);
  store.markSynced();
  const decide: SccTestWebhooks['decide'] = async (path, request, timeoutMs, client) => {
    const webhook = webhooks.find((candidate) => candidate.path === path);
    if (!webhook) throw new RangeError(`no webhook at ${path}`);
    const deadlineMs = timeoutMs === undefined ? {} : { deadlineMs: clock() + answerAfterMs(timeoutMs) };
    return await webhook.decide(request, { store, now: clock, ...deadlineMs, ...client });
  };
  return {
    store,
    metrics,
    log,
    decide,
    putNamespace: (labels = {}) => store.put('Namespace', { metadata: { name: 'shop', annotations: RANGES, labels } }),
    async series(name) {
      const text = await metrics.expose();
      return text.split('\n').filter((line) => line.startsWith(`${name}{`));
    },
  };
}

/** The SCCs after `restricted-v3` in evaluation order. Only administrators may use these SCCs. */
const ADMINISTRATOR_SCCS = [
  'restricted',
  'nested-container',
  'nonroot-v2',
  'nonroot',
  'hostmount-anyuid',
  'hostmount-anyuid-v2',
  'hostnetwork-v2',
  'hostnetwork',
  'hostaccess',
  'privileged',
];

const formatUnusable = (name: string): string => `provider "${name}": Forbidden: not usable by user or serviceaccount`;

/** Returns the denial message for a pod that Alice creates, with the errors of restricted-v2 and restricted-v3. */
export function formatSccDenial(restrictedErrors: readonly string[], separator = ', '): string {
  const errors = [formatUnusable('anyuid'), ...restrictedErrors, ...ADMINISTRATOR_SCCS.map(formatUnusable)];
  return `unable to validate against any security context constraint: [${errors.join(separator)}]`;
}

/** The denial message for a pod that Alice creates and that runs as root. */
export const ROOT_DENIAL = formatSccDenial([
  'provider restricted-v2: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000660000, 1000669999]',
  'provider restricted-v3: .spec.hostUsers: Invalid value: null: Host Users must be set to false',
  'provider restricted-v3: .containers[0].runAsUser: Invalid value: 0: must be in the ranges: [1000, 65534]',
]);
export const ROOT_WARNINGS = [
  'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
  'SCC "anyuid" would admit the pod if service account "default" were allowed to use it. Bind ClusterRole "system:openshift:scc:anyuid".',
];

/** Adds the webhook configuration as it is once SCCs are enforced. */
export function putRegistration(store: WritableStore): void {
  const annotations = { [SCC_REGISTERED_ANNOTATION]: 'enforce' };
  store.put('ValidatingWebhookConfiguration', { metadata: { name: 'portcullis.dev', annotations } });
}

/** Adds the standard SCCs, their roles and their bindings to a store. */
export function putStandardSccs(store: WritableStore): void {
  for (const { scc } of STANDARD_SCCS) store.put('SecurityContextConstraints', scc);
  for (const role of STANDARD_CLUSTER_ROLES) store.put('ClusterRole', role);
  for (const binding of STANDARD_CLUSTER_ROLE_BINDINGS) store.put('ClusterRoleBinding', binding);
}

/** Builds a pod with one container and the service account `default`. */
export function buildPod(
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

/** Builds a request from Alice to create a pod in the namespace `shop`, with changed fields. */
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
