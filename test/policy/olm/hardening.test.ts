import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JsonObject, Namespace } from '../../../src/kube/types.ts';
import {
  catalogMode,
  DISABLE_SECURITY_ANNOTATION,
  hasCatalogPods,
  rewriteDisableSecurity,
} from '../../../src/policy/olm/catalog-source.ts';
import { type HardeningInput, hardenPod } from '../../../src/policy/olm/hardening.ts';
import { HARDENING_MANAGER, proposeLabels } from '../../../src/policy/olm/namespaces.ts';
import { recognizeWorkload, resolveCatalogSource } from '../../../src/policy/olm/recognition.ts';
import { decodePod } from '../../../src/policy/pod/index.ts';
import { evaluatePod } from '../../../src/policy/pss/index.ts';
import { isKeptByOlm } from '../../support/olm.ts';

const ENFORCE = 'pod-security.kubernetes.io/enforce';
const RUNTIME_DEFAULT = { type: 'RuntimeDefault' };
const RESTRICTED = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };

type Options = Partial<Omit<HardeningInput, 'pod'>>;

/** Applies a hardening profile to a pod. Default: the profile of a catalog on Kubernetes. */
function harden(spec: JsonObject, options: Options = {}) {
  const { pod, error } = decodePod({ spec });
  assert.equal(error, undefined);
  assert.ok(pod);
  const hardened = hardenPod({ profile: 'catalog-source', isOpenShift: false, isForced: false, ...options, pod });
  const messages = hardened.conflicts.map(({ message }) => message);
  return { spec: hardened.pod['spec'] as JsonObject, changes: hardened.changes, messages };
}

const contextOf = (spec: JsonObject, list = 'containers'): unknown =>
  (spec[list] as readonly JsonObject[] | undefined)?.[0]?.['securityContext'];

const root = { containers: [{ name: 'a', securityContext: { runAsUser: 0, runAsNonRoot: false } }] };

suite('OLM hardening of a pod', () => {
  const explicit = {
    securityContext: { runAsUser: 0, runAsNonRoot: false, seccompProfile: { type: 'Unconfined' } },
    containers: [{ name: 'a', securityContext: { allowPrivilegeEscalation: true, readOnlyRootFilesystem: true } }],
  };

  test('keeps and reports explicit values', () => {
    const { spec, messages } = harden(explicit);
    assert.deepEqual(spec['securityContext'], explicit.securityContext);
    assert.deepEqual(contextOf(spec), {
      privileged: false,
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: true,
      capabilities: { drop: ['ALL'] },
    });
    assert.deepEqual(messages, [
      'spec.securityContext.seccompProfile: "Unconfined" is kept because it is set explicitly',
      'spec.securityContext.runAsUser: 0 is kept because it is set explicitly',
      'spec.securityContext.runAsNonRoot: false is kept because the pod has no non-root user',
      'spec.containers[0].securityContext.allowPrivilegeEscalation: true is kept because it is set explicitly',
    ]);
  });

  test('replaces less strict values and keeps stricter values in force mode', () => {
    const { spec, messages } = harden(explicit, { isForced: true });
    assert.deepEqual(spec['securityContext'], {
      runAsUser: 1001,
      runAsNonRoot: true,
      seccompProfile: RUNTIME_DEFAULT,
    });
    assert.deepEqual(contextOf(spec), { privileged: false, readOnlyRootFilesystem: true, ...RESTRICTED });
    assert.deepEqual(messages, []);
    assert.equal(evaluatePod({ spec }, { level: 'restricted', version: 'latest' }).allowed, true);
  });

  test('keeps values whose replacement would be invalid in force mode', () => {
    const privileged = { privileged: true, allowPrivilegeEscalation: true };
    const capabilities = { add: ['SYS_ADMIN', 'NET_BIND_SERVICE'], drop: ['KILL'] };
    const admin = { allowPrivilegeEscalation: true, capabilities };
    const containers = [privileged, admin].map((securityContext, index) => ({ name: `c${index}`, securityContext }));
    const { spec, messages } = harden({ containers }, { isForced: true });
    assert.deepEqual(
      (spec['containers'] as readonly JsonObject[]).map((one) => one['securityContext']),
      [
        { ...privileged, readOnlyRootFilesystem: false, capabilities: { drop: ['ALL'] } },
        {
          ...admin,
          privileged: false,
          readOnlyRootFilesystem: false,
          capabilities: { ...capabilities, drop: ['KILL', 'ALL'] },
        },
      ],
    );
    assert.deepEqual(messages, [
      'spec.containers[0].securityContext.privileged: true is kept because only its author can change a privileged container',
      'spec.containers[0].securityContext.allowPrivilegeEscalation: true is kept because the container is privileged or adds SYS_ADMIN',
      'spec.containers[1].securityContext.allowPrivilegeEscalation: true is kept because the container is privileged or adds SYS_ADMIN',
      'spec.containers[1].securityContext.capabilities.add: ["SYS_ADMIN"] is kept although the restricted level allows only NET_BIND_SERVICE',
    ]);
  });

  test('does not set runAsNonRoot for a container that runs as root, unless its user is replaced', () => {
    assert.deepEqual(harden(root).spec['securityContext'], { runAsUser: 1001, seccompProfile: RUNTIME_DEFAULT });
    assert.deepEqual(harden(root).messages, [
      'spec.containers[0].securityContext.runAsUser: 0 is kept because it is set explicitly',
      'spec.containers[0].securityContext.runAsNonRoot: false is kept because the container has no non-root user',
    ]);
    const { spec } = harden(root, { isForced: true });
    assert.equal(evaluatePod({ spec }, { level: 'restricted', version: 'latest' }).allowed, true);
  });

  test('removes root users on OpenShift, because SCC admission sets the user', () => {
    const { spec, messages } = harden({ ...explicit, ...root }, { isForced: true, isOpenShift: true });
    const removed = { runAsUser: undefined, runAsNonRoot: undefined };
    assert.deepEqual(spec['securityContext'], { ...removed, seccompProfile: RUNTIME_DEFAULT });
    assert.deepEqual(contextOf(spec), { ...removed, privileged: false, readOnlyRootFilesystem: false, ...RESTRICTED });
    assert.deepEqual(messages, []);
  });

  test('mounts a writable /tmp for a controller, unless it already has one or writes to another directory', () => {
    const container = { name: 'olm' };
    const bare = harden({ containers: [container] }, { profile: 'olm-controller' });
    assert.deepEqual(bare.spec['volumes'], [{ name: 'tmpfs', emptyDir: {} }]);
    assert.deepEqual((bare.spec['containers'] as readonly JsonObject[])[0]?.['volumeMounts'], [
      { name: 'tmpfs', mountPath: '/tmp' },
    ]);
    const volumes = [{ name: 'tmpfs', secret: { secretName: 's' } }];
    const taken = harden({ containers: [container], volumes }, { profile: 'olm-controller' });
    assert.deepEqual(taken.spec['volumes'], [...volumes, { name: 'tmpfs-0', emptyDir: {} }]);
    const mounted = { ...container, volumeMounts: [{ name: 'own', mountPath: '/tmp/' }] };
    assert.equal(harden({ containers: [mounted] }, { profile: 'olm-controller' }).spec['volumes'], undefined);
    const writing = harden({ containers: [container] }, { profile: 'olm-controller', writesRootFilesystem: true });
    assert.deepEqual(contextOf(writing.spec), { privileged: false, ...RESTRICTED });
    assert.equal(writing.spec['volumes'], undefined);
  });

  test('does not change ephemeral containers and Windows pods', () => {
    const ephemeralContainers = [{ name: 'debug', securityContext: { runAsUser: 0 } }];
    const { spec } = harden({ containers: [{ name: 'a' }], ephemeralContainers });
    assert.deepEqual(spec['ephemeralContainers'], ephemeralContainers);
    assert.deepEqual(harden({ os: { name: 'windows' }, containers: [{ name: 'a' }] }).changes, []);
  });

  test('changes nothing when it runs again, in any mode and on any platform', () => {
    for (const profile of ['olm-controller', 'catalog-source', 'bundle-unpack', 'run-bundle'] as const) {
      for (const isForced of [true, false]) {
        const options = { profile, isForced, isOpenShift: profile === 'catalog-source' };
        const { spec } = harden({ ...explicit, initContainers: [{ name: 'extract-content' }] }, options);
        assert.deepEqual(harden(spec, options).changes, [], `${profile} ${isForced}`);
      }
    }
  });
});

suite('OLM hardening of a Job', () => {
  const OLM = { readOnlyRootFilesystem: true, ...RESTRICTED };
  const CASES: Readonly<Record<string, JsonObject>> = {
    'of OpenShift': {
      securityContext: { seccompProfile: RUNTIME_DEFAULT },
      containers: [{ name: 'extract', securityContext: OLM }],
    },
    'of an old release': { containers: [{ name: 'extract' }], initContainers: [{ name: 'util' }, { name: 'pull' }] },
    'with other values': {
      securityContext: { runAsUser: 0, runAsNonRoot: false, seccompProfile: { type: 'Unconfined' } },
      containers: [
        { name: 'extract', securityContext: { allowPrivilegeEscalation: true, capabilities: { drop: ['NET_RAW'] } } },
      ],
    },
  };
  test('keeps values whose change would make OLM delete the Job', () => {
    const desired = CASES['with other values'] ?? {};
    assert.equal(isKeptByOlm({ spec: desired }, { spec: harden(desired, { isForced: true }).spec }), false);
    assert.deepEqual(harden(desired, { isForced: true, isJob: true, profile: 'bundle-unpack' }).messages.slice(-2), [
      'spec.containers[0].securityContext.allowPrivilegeEscalation: true is kept because OLM deletes a Job with a different value',
      'spec.containers[0].securityContext.capabilities.drop: ["NET_RAW"] is kept because OLM deletes a Job with a different value',
    ]);
  });
});

suite('a CatalogSource', () => {
  const config = (securityContextConfig: unknown) => ({ spec: { grpcPodConfig: { securityContextConfig } } });

  test('is reported if it selects legacy mode in a restricted namespace', () => {
    const fix = 'Set it to "baseline" or "privileged", or set securityContextConfig to "restricted"';
    assert.deepEqual(catalogMode(config('legacy'), { [ENFORCE]: 'restricted' }).problems, [
      `legacy pods are denied because the namespace has ${ENFORCE}=restricted. ${fix}`,
    ]);
    assert.deepEqual(catalogMode({}, { [ENFORCE]: 'Restricted' }).problems, [
      `legacy pods are denied because the namespace has ${ENFORCE}=Restricted, an invalid level that is enforced as "restricted". ${fix}`,
    ]);
    assert.deepEqual(catalogMode(config('legacy'), { [ENFORCE]: 'baseline' }).problems, []);
  });

  test('takes its mode from the Portcullis label or the upstream label of its namespace', () => {
    const labels = { [ENFORCE]: 'privileged', 'portcullis.dev/enforce': 'restricted' };
    const from = 'namespace label portcullis.dev/enforce';
    assert.deepEqual(catalogMode({}, labels), { mode: 'restricted', from, problems: [] });
    assert.deepEqual(catalogMode(config('legacy'), labels).problems, [
      'legacy pods are denied because the namespace has portcullis.dev/enforce=restricted. Set it to "baseline" or "privileged", or set securityContextConfig to "restricted"',
    ]);
    const lower = { [ENFORCE]: 'restricted', 'portcullis.dev/enforce': 'baseline' };
    assert.equal(catalogMode({}, lower).mode, 'restricted');
  });

  test('has its security disabled only by exact values of the annotation and of disableSecurity', () => {
    const labels = { [ENFORCE]: 'restricted' };
    for (const value of ['True', 'false', '']) {
      const metadata = { annotations: { [DISABLE_SECURITY_ANNOTATION]: value } };
      assert.equal(catalogMode({ metadata, spec: { disableSecurity: 'true' } }, labels).mode, 'restricted');
    }
    for (const spec of [null, 'x', [], { grpcPodConfig: 'legacy' }])
      assert.equal(catalogMode({ spec }, labels).mode, 'restricted');
  });

  test('gets a supported field instead of disableSecurity', () => {
    assert.deepEqual(rewriteDisableSecurity({ spec: { image: 'i', disableSecurity: true } }), {
      image: 'i',
      grpcPodConfig: { securityContextConfig: 'legacy' },
    });
    assert.deepEqual(
      rewriteDisableSecurity({
        spec: { disableSecurity: true, grpcPodConfig: { securityContextConfig: 'restricted' } },
      }),
      { grpcPodConfig: { securityContextConfig: 'restricted' } },
    );
    assert.equal(rewriteDisableSecurity({ spec: { disableSecurity: false } }), undefined);
  });

  test('has no pods if it has only an address', () => {
    assert.equal(hasCatalogPods({ spec: { sourceType: 'grpc', address: 'registry:50051' } }), false);
    assert.equal(hasCatalogPods({ spec: { sourceType: 'grpc', image: 'i' } }), true);
    assert.equal(hasCatalogPods({ spec: { sourceType: 'configmap', configMap: 'c' } }), true);
  });
});

suite('a workload', () => {
  const workload = { kind: 'Deployment', containers: [], initContainers: [] };

  test('is recognized as a controller of OLM by its namespace and label', () => {
    const app = { app: 'olm-operator' };
    const inOlm = { metadata: { namespace: 'olm' } };
    assert.deepEqual(recognizeWorkload({ ...workload, ...inOlm, templateLabels: app }), { profile: 'olm-controller' });
    assert.equal(recognizeWorkload({ ...workload, metadata: { namespace: 'shop', labels: app } }), undefined);
    assert.equal(recognizeWorkload({ ...workload, ...inOlm, templateLabels: { app: 'other' } }), undefined);
    const marketplace = { namespace: 'openshift-marketplace', labels: { name: 'marketplace-operator' } };
    assert.deepEqual(recognizeWorkload({ ...workload, metadata: marketplace }), { profile: 'olm-controller' });
    assert.deepEqual(
      recognizeWorkload({ ...workload, kind: 'CronJob', ...inOlm, templateLabels: { app: 'olm-collect-profiles' } }),
      { profile: 'olm-controller', writesRootFilesystem: true },
    );
  });

  const owner = { apiVersion: 'operators.coreos.com/v1alpha1', kind: 'CatalogSource', name: 'cat', uid: 'u1' };
  const get = (name: string) => (name === 'gone' ? undefined : { metadata: { name, uid: `uid of ${name}` } });

  test('is recognized by its label, but not by an owner with a different UID', () => {
    const update = { 'olm.catalogSource': '', 'catalogsource.operators.coreos.com/update': 'other' };
    assert.deepEqual(resolveCatalogSource({ ownerReferences: [owner], labels: update }, get), {
      name: 'other',
      catalog: get('other'),
    });
    const unlabeled = resolveCatalogSource({ ownerReferences: [owner] }, get);
    assert.deepEqual(unlabeled, { name: 'cat', catalog: undefined });
    const missing = resolveCatalogSource({ labels: { 'olm.catalogSource': 'gone' } }, get);
    assert.deepEqual(missing, { name: 'gone', catalog: undefined });
  });
});

suite('labels of OLM namespaces', () => {
  const versions = { [`${ENFORCE}-version`]: 'latest' };
  const RESTRICTED_LABELS = { [ENFORCE]: 'restricted', ...versions };
  const marketplace = (level: string) =>
    Object.fromEntries(
      ['enforce', 'audit', 'warn'].flatMap((mode) => [
        [`pod-security.kubernetes.io/${mode}`, level],
        [`pod-security.kubernetes.io/${mode}-version`, 'latest'],
      ]),
    );

  const managedBy = (manager: string) => ({
    managedFields: [
      {
        manager,
        operation: 'Update',
        fieldsType: 'FieldsV1',
        fieldsV1: { 'f:metadata': { 'f:labels': { [`f:${ENFORCE}`]: {} } } },
      },
    ],
  });
  const propose = (metadata: Namespace['metadata'], securityModes: readonly string[] = [], isForced = false) => {
    const catalogs = securityModes.map((mode, index) => ({
      metadata: { name: `cat-${index}` },
      spec: { image: 'i', grpcPodConfig: { securityContextConfig: mode } },
    }));
    const { labels, notes } =
      proposeLabels({ namespace: { ...(metadata ? { metadata } : {}) }, catalogs, isForced }) ?? {};
    return { labels, notes };
  };

  test('select restricted for OLM namespaces only', () => {
    assert.deepEqual(propose({ name: 'olm' }), { labels: RESTRICTED_LABELS, notes: [] });
    assert.deepEqual(propose({ name: 'olm', labels: RESTRICTED_LABELS }), { labels: {}, notes: [] });
    assert.deepEqual(propose({ name: 'shop' }), { labels: undefined, notes: undefined });
    assert.deepEqual(propose({ name: 'openshift-operators' }), {
      labels: {},
      notes: ['no label is proposed because the level depends on the installed operators'],
    });
  });

  test('select restricted for the marketplace if all its catalogs are restricted', () => {
    const name = 'openshift-marketplace';
    assert.deepEqual(propose({ name }, ['restricted', 'restricted']), { labels: marketplace('restricted'), notes: [] });
    assert.deepEqual(propose({ name }), { labels: marketplace('baseline'), notes: [] });
    assert.deepEqual(propose({ name }, ['restricted', 'legacy']), {
      labels: marketplace('baseline'),
      notes: ['restricted requires securityContextConfig "restricted" in CatalogSources cat-1'],
    });
  });

  test('never select a lower level', () => {
    const labels = { ...marketplace('baseline'), [ENFORCE]: 'restricted' };
    assert.deepEqual(propose({ name: 'openshift-marketplace', labels }, [], true), {
      labels: {},
      notes: [`${ENFORCE}=restricted is kept because it is stricter than baseline`],
    });
    assert.deepEqual(propose({ name: 'operators', labels: { ...versions, [ENFORCE]: 'Privileged' } }, [], true), {
      labels: {},
      notes: [`${ENFORCE}=Privileged is kept because it is invalid and enforced as restricted. Set a valid level`],
    });
  });

  test('do not replace labels of other field managers without force', () => {
    const labels = { [ENFORCE]: 'baseline', ...versions };
    const owned = { name: 'olm', labels, ...managedBy('helm') };
    assert.deepEqual(propose(owned), {
      labels: {},
      notes: [`${ENFORCE}=baseline is kept because field manager helm owns it. Use --force to replace it`],
    });
    assert.deepEqual(propose(owned, [], true), { labels: { [ENFORCE]: 'restricted' }, notes: [] });
    const own = { ...owned, ...managedBy(HARDENING_MANAGER) };
    assert.deepEqual(propose(own), { labels: { [ENFORCE]: 'restricted' }, notes: [] });
  });
});
