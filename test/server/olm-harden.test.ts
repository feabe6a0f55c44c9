/**
 * Tests OLM hardening by the webhook, including its modes, the recognition of pods, exceptions, and the order relative
 * to SCC admission.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { matchesConditions } from '../../src/dev-cluster/match-conditions.ts';
import { diff } from '../../src/kube/json-patch.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import type { SccMode } from '../../src/policy/scc/index.ts';
import { MUTATE_OLM_PODS } from '../../src/server/webhooks/pods.ts';
import { ALICE, createSccTestWebhooks, type SccRigOptions } from '../support/scc-webhooks.ts';

type Mode = NonNullable<SccRigOptions['olmHardening']>;

const { path: PATH } = MUTATE_OLM_PODS;
const ENFORCE = 'pod-security.kubernetes.io/enforce';
const OWNER = { apiVersion: 'operators.coreos.com/v1alpha1', kind: 'CatalogSource', name: 'cat', uid: 'u1' };

interface Cluster {
  readonly mode?: Mode;
  readonly isOpenShift?: boolean;
  readonly sccMode?: SccMode;
  /** Labels of the namespace, in addition to its level. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly namespaceLevel?: string;
  readonly catalog?: JsonObject | null;
}

/** Creates a cluster whose namespace `shop` contains the CatalogSource `cat`. */
function startWebhooks({
  mode = 'fill',
  isOpenShift = false,
  sccMode = 'report',
  namespaceLevel = 'baseline',
  labels,
  catalog,
}: Cluster = {}) {
  const rig = createSccTestWebhooks({ olmHardening: mode, settings: { mode: sccMode } });
  rig.putNamespace({ [ENFORCE]: namespaceLevel, ...labels });
  if (!isOpenShift) {
    for (const { metadata } of rig.store.list('SecurityContextConstraints'))
      rig.store.remove('SecurityContextConstraints', metadata?.name ?? '');
  }
  const spec = { sourceType: 'grpc', image: 'i', grpcPodConfig: { securityContextConfig: 'restricted' } };
  const metadata = { name: 'cat', namespace: 'shop', uid: 'u1' };
  if (catalog !== null) rig.store.put('CatalogSource', { metadata, spec, ...catalog });
  return rig;
}

const request = (object: unknown, path: object = {}) => ({
  uid: 'u',
  kind: { group: '', version: 'v1', kind: 'Pod' },
  resource: { group: '', version: 'v1', resource: 'pods' },
  operation: 'CREATE' as const,
  namespace: 'shop',
  userInfo: ALICE,
  object,
  ...path,
});

const catalogPod = (metadata: JsonObject = {}, spec: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    generateName: 'cat-',
    labels: { 'olm.catalogSource': 'cat', 'olm.pod-spec-hash': 'abc', 'olm.managed': 'true' },
    ownerReferences: [OWNER],
    ...metadata,
  },
  spec: { containers: [{ name: 'registry-server', image: 'i' }], ...spec },
});

/** Returns the changed fields, the warnings and the counted result of a review. */
async function review(cluster: Cluster, pod: unknown, path: object = {}) {
  const rig = startWebhooks(cluster);
  const decision = await rig.decide(PATH, request(pod, path));
  assert.ok(decision.allowed);
  const { object, warnings = [] } = decision;
  const patch =
    object === undefined
      ? []
      : diff(pod, object)
          .map((operation) => operation.path)
          .sort();
  const series = await rig.series('portcullis_olm_hardening_total');
  return { patch, warnings, counted: series.map((line) => /result="(\w+)"/.exec(line)?.[1]).join() };
}

const HARDENED = ['/spec/containers/0/securityContext', '/spec/securityContext'];
const CONFLICT = 'OLM hardening: spec.securityContext.runAsUser: 0 is kept because it is set explicitly';
const root = catalogPod({}, { securityContext: { runAsUser: 0 } });
const REPORT =
  'OLM hardening: the profile catalog-source would set seccompProfile, runAsUser, runAsNonRoot, privileged, readOnlyRootFilesystem, allowPrivilegeEscalation, capabilities.drop';

suite('the webhook for OLM hardening', () => {
  test('ignores pods in off mode', async () => {
    assert.deepEqual(await review({ mode: 'off' }, catalogPod()), { patch: [], warnings: [], counted: '' });
  });

  test('only warns in report mode', async () => {
    assert.deepEqual(await review({ mode: 'report' }, catalogPod()), {
      patch: [],
      warnings: [REPORT],
      counted: 'reported',
    });
  });

  test('changes only security contexts and keeps explicit values in fill mode', async () => {
    assert.deepEqual(await review({}, catalogPod()), { patch: HARDENED, warnings: [], counted: 'hardened' });
    const { warnings, patch } = await review({}, root);
    assert.deepEqual(warnings, [CONFLICT]);
    assert.deepEqual(patch, ['/spec/containers/0/securityContext', '/spec/securityContext/seccompProfile']);
  });

  test('replaces explicit values in force mode', async () => {
    const { warnings, patch } = await review({ mode: 'force' }, root);
    assert.deepEqual(warnings, []);
    assert.deepEqual(patch, [
      '/spec/containers/0/securityContext',
      '/spec/securityContext/runAsNonRoot',
      '/spec/securityContext/runAsUser',
      '/spec/securityContext/seccompProfile',
    ]);
  });

  test('does not change a compliant pod, and counts a pod whose explicit values conflict', async () => {
    const rig = startWebhooks();
    const first = await rig.decide(PATH, request(catalogPod()));
    assert.ok(first.allowed);
    assert.deepEqual(await review({}, first.object), { patch: [], warnings: [], counted: 'compliant' });
    const privileged = { privileged: true, allowPrivilegeEscalation: true };
    const compliant = { ...privileged, readOnlyRootFilesystem: false, capabilities: { drop: ['ALL'] } };
    const spec = (first.object as { readonly spec: JsonObject }).spec;
    const conflicting = catalogPod(
      {},
      { ...spec, containers: [{ name: 'registry-server', securityContext: compliant }] },
    );
    assert.equal((await review({ mode: 'force' }, conflicting)).counted, 'conflict');
  });

  test('recognizes a pod that polls for updates, whose catalog label is empty', async () => {
    const labels = { 'olm.catalogSource': '', 'catalogsource.operators.coreos.com/update': 'cat' };
    assert.deepEqual((await review({}, catalogPod({ labels, ownerReferences: [] }))).patch, HARDENED);
  });

  const LEGACY = { spec: { image: 'i', grpcPodConfig: { securityContextConfig: 'legacy' } } };

  test('uses the CatalogSource to determine whether a pod is legacy, and reports a legacy pod', async () => {
    assert.deepEqual(await review({ catalog: LEGACY }, catalogPod()), { patch: [], warnings: [], counted: 'legacy' });
    assert.deepEqual((await review({ catalog: LEGACY, namespaceLevel: 'restricted' }, catalogPod())).warnings, [
      `OLM hardening: legacy pods are denied because the namespace has ${ENFORCE}=restricted. Set it to "baseline" or "privileged", or set securityContextConfig to "restricted"`,
    ]);
    const metadata = {
      name: 'cat',
      namespace: 'shop',
      uid: 'u1',
      annotations: { 'portcullis.dev/disable-security': 'true' },
    };
    assert.equal((await review({ catalog: { metadata, spec: {} } }, catalogPod())).counted, 'legacy');
  });

  test('does not let a pod claim the legacy mode', async () => {
    const annotations = { 'portcullis.dev/disable-security': 'true' };
    const forged = catalogPod({ annotations }, { grpcPodConfig: { securityContextConfig: 'legacy' } });
    assert.deepEqual((await review({}, forged)).patch, HARDENED);
    const labels = { 'olm.catalogSource': 'cat', 'olm.managed': 'true', 'operatorframework.io/bundle-unpack-ref': 'b' };
    assert.equal((await review({ catalog: LEGACY }, catalogPod({ labels }))).counted, 'hardened');
  });

  test('grants no legacy mode for an invalid securityContextConfig', async () => {
    const catalog = { spec: { image: 'i', grpcPodConfig: { securityContextConfig: 'Legacy' } } };
    assert.deepEqual(await review({ catalog }, catalogPod()), {
      patch: HARDENED,
      warnings: [
        'OLM hardening: spec.grpcPodConfig.securityContextConfig "Legacy" must be one of "legacy", or "restricted". Its pods are treated as restricted',
      ],
      counted: 'hardened',
    });
  });

  test('uses the enforce label of the namespace if there is no CatalogSource or no CRD for it', async () => {
    const missing =
      'OLM hardening: CatalogSource "cat" not found in namespace "shop"; the enforce label of the namespace determines the security context of its pods';
    const restricted = await review({ catalog: null, namespaceLevel: 'restricted' }, catalogPod());
    assert.deepEqual(restricted, { patch: HARDENED, warnings: [missing], counted: 'hardened' });
    assert.deepEqual(await review({ catalog: null }, catalogPod()), {
      patch: [],
      warnings: [missing],
      counted: 'legacy',
    });
  });

  test('does not treat an owner with another UID as the CatalogSource', async () => {
    const ownerReferences = [{ ...OWNER, uid: 'other' }];
    const { warnings } = await review({ namespaceLevel: 'restricted' }, catalogPod({ ownerReferences, labels: {} }));
    assert.match(warnings.join(), /CatalogSource "cat" not found/);
  });

  test('never sets a user for a pod of operator-sdk run bundle, and warns about it in legacy mode', async () => {
    const bundle = catalogPod({ labels: {} }, { containers: [{ name: 'registry-grpc' }] });
    const rig = startWebhooks();
    const decision = await rig.decide(PATH, request(bundle));
    assert.ok(decision.allowed);
    const { spec } = decision.object as { readonly spec: JsonObject };
    assert.deepEqual(spec['securityContext'], { seccompProfile: { type: 'RuntimeDefault' } });
    assert.deepEqual((await review({ catalog: LEGACY }, bundle)).warnings, [
      'catalog pod runs without a restricted security context; set --security-context-config=restricted or rebuild the catalog',
    ]);
  });

  test('ignores other pods, updates and malformed pods', async () => {
    const ignored = { patch: [], warnings: [], counted: '' };
    assert.deepEqual(await review({}, { ...catalogPod(), metadata: { labels: { 'olm.managed': 'true' } } }), ignored);
    assert.deepEqual(await review({}, catalogPod(), { operation: 'UPDATE' }), ignored);
    for (const junk of [null, 'x', { metadata: [] }, catalogPod({ labels: { 'olm.catalogSource': 1 } })])
      assert.deepEqual(await review({}, junk), ignored);
    assert.deepEqual(await review({}, catalogPod({}, { containers: [{ securityContext: 'x' }] })), ignored);
    assert.deepEqual(
      await review({}, catalogPod({ labels: {}, ownerReferences: [{ kind: 'CatalogSource', apiVersion: 1 }] })),
      ignored,
    );
  });

  test('keeps the labels, the images and the number of containers, so OLM keeps the pod', async () => {
    const pod = catalogPod({}, { initContainers: [{ name: 'extract-utilities' }, { name: 'extract-content' }] });
    const decision = await startWebhooks({ mode: 'force' }).decide(PATH, request(pod));
    assert.ok(decision.allowed);
    for (const { path } of diff(pod, decision.object)) assert.match(path, /securityContext$/);
  });

  const WITH_USER = { seccompProfile: { type: 'RuntimeDefault' }, runAsUser: 1001, runAsNonRoot: true };
  const WITHOUT_USER = { seccompProfile: { type: 'RuntimeDefault' } };
  const users: readonly (readonly [name: string, cluster: Cluster, expected: JsonObject])[] = [
    ['SCCs are in report mode', { sccMode: 'report' }, WITH_USER],
    ['the label of the namespace selects enforce mode', { labels: { 'portcullis.dev/scc': 'enforce' } }, WITHOUT_USER],
    ['the namespace is exempt from SCCs', { sccMode: 'enforce', labels: { 'openshift.io/run-level': '0' } }, WITH_USER],
    [
      'the label of the namespace selects report mode',
      { sccMode: 'enforce', labels: { 'portcullis.dev/scc': 'report' } },
      WITH_USER,
    ],
    ['the SCC admission of OpenShift is active', { sccMode: 'off' }, WITHOUT_USER],
  ];
  for (const [name, cluster, expected] of users) {
    test(`sets the user of the pod unless SCC admission sets it: ${name}`, async () => {
      const rig = startWebhooks({ ...cluster, isOpenShift: true });
      const decision = await rig.decide(PATH, request(catalogPod()));
      assert.ok(decision.allowed);
      const { spec } = decision.object as { readonly spec: JsonObject };
      const { fsGroup: _group, seLinuxOptions: _options, ...context } = spec['securityContext'] as JsonObject;
      assert.deepEqual(context, expected);
    });
  }

  test('runs before SCC admission, and changes nothing when it is invoked again', async () => {
    const rig = startWebhooks({ isOpenShift: true, sccMode: 'enforce' });
    const pod = catalogPod();
    const first = await rig.decide(PATH, request(pod));
    assert.ok(first.allowed, JSON.stringify(first));
    const changed = first.object as JsonObject;
    const [container] = (changed['spec'] as { readonly containers: readonly JsonObject[] }).containers;
    // Only hardening sets `readOnlyRootFilesystem`, and only SCC admission sets users.
    assert.deepEqual(container?.['securityContext'], {
      privileged: false,
      readOnlyRootFilesystem: false,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      runAsUser: 1000660000,
      runAsNonRoot: true,
    });
    const again = await rig.decide(PATH, request(changed));
    assert.ok(again.allowed);
    assert.deepEqual(diff(changed, again.object ?? changed), []);
  });
});

suite('the API server sends to this webhook', () => {
  const matches = (object: JsonObject, namespace = 'shop'): unknown =>
    matchesConditions(
      MUTATE_OLM_PODS.matchConditions as unknown as readonly JsonObject[],
      request(object, { namespace }),
    );

  test('pods without the label that have an OLM owner, the label of unpack pods, or an OLM namespace', () => {
    assert.equal(matches(catalogPod({ labels: {} })), true);
    assert.equal(matches({ metadata: { labels: { 'operatorframework.io/bundle-unpack-ref': 'a' } } }), true);
    assert.equal(matches({ metadata: {} }, 'olm'), true);
    assert.equal(matches({ metadata: { labels: { app: 'web' } } }), false);
    const ownerReferences = [{ ...OWNER, apiVersion: 'example.com/v1' }];
    assert.equal(matches(catalogPod({ labels: {}, ownerReferences })), false);
  });
});
