/** Compares the hardening of Operator Lifecycle Manager pods with upstream and with the recorded expectations. */
import assert from 'node:assert/strict';
import { suite } from 'node:test';
import { isObject, type JsonObject } from '../../src/kube/types.ts';
import {
  type Candidate,
  catalogMode,
  DISABLE_SECURITY_ANNOTATION,
  hardenPod,
  type ProfileId,
  HARDENING_PROFILES,
  proposeLabels,
  recognizeWorkload,
  resolveCatalogSource,
} from '../../src/policy/olm/index.ts';
import { decodePod } from '../../src/policy/pod/index.ts';
import { type Area, area, type Case, readCases, testAreas } from '../support/conformance/cases.ts';
import { isKeptByOlm } from '../support/olm.ts';

const ENFORCE = 'pod-security.kubernetes.io/enforce';

/** Returns containers with the given names. */
const named = (names: readonly string[]): readonly JsonObject[] => names.map((name) => ({ name }));

/** Applies a profile to a pod spec. */
function harden(spec: unknown, profile: ProfileId, isOpenShift: boolean) {
  const { pod } = decodePod({ spec });
  assert.ok(pod);
  const { pod: hardened, conflicts } = hardenPod({ profile, isOpenShift, isForced: false, pod });
  return { spec: hardened['spec'] as JsonObject, conflicts };
}

/** Removes `privileged`, which upstream does not set because the default is the same. */
function withoutPrivileged(context: unknown): unknown {
  if (!isObject(context)) return context;
  return Object.fromEntries(Object.entries(context).filter(([field]) => field !== 'privileged'));
}

function contexts(list: unknown): Readonly<Record<string, unknown>> {
  const containers = (list ?? []) as readonly { readonly name: string; readonly securityContext?: unknown }[];
  return Object.fromEntries(containers.map(({ name, securityContext }) => [name, withoutPrivileged(securityContext)]));
}

interface UpstreamPod {
  readonly podSecurityContext: JsonObject | null;
  readonly containerSecurityContext: JsonObject;
  readonly initContainers?: readonly JsonObject[];
  readonly emptyDirVolumes?: readonly string[];
}

/**
 * Asserts that hardening turns a pod that OLM creates without security contexts into the pod that OLM creates in
 * restricted mode.
 */
function verifyCatalogPod(mode: string, workloadUserId: number, expect: UpstreamPod): void {
  const { podSecurityContext, containerSecurityContext, initContainers = [], emptyDirVolumes = [] } = expect;
  const volumes = emptyDirVolumes.map((name) => ({ name, emptyDir: {} }));
  if (mode === 'legacy') {
    assert.equal(podSecurityContext, null);
    return;
  }
  const bare = {
    volumes,
    initContainers: named(initContainers.map(({ name }) => String(name))),
    containers: named(['registry-server']),
  };
  const { spec, conflicts } = harden(bare, 'catalog-source', workloadUserId <= 0);
  assert.deepEqual(spec['securityContext'], podSecurityContext);
  assert.deepEqual(contexts(spec['containers']), { 'registry-server': containerSecurityContext });
  assert.deepEqual(contexts(spec['initContainers']), contexts(initContainers));
  assert.deepEqual(spec['volumes'], volumes);
  assert.deepEqual(conflicts, []);
}

interface RecognitionInput {
  readonly object: Pick<Candidate, 'kind'> & {
    readonly labels?: Readonly<Record<string, string>>;
    readonly ownerReferences?: readonly { apiVersion: string; kind: string; name: string; uid: string }[];
    readonly containers?: readonly string[];
    readonly initContainers?: readonly string[];
  };
}

interface JobExpectation {
  readonly podSecurityContext: JsonObject;
  readonly containers: Readonly<Record<string, JsonObject>>;
  readonly initContainers: Readonly<Record<string, JsonObject>>;
  readonly labels: Readonly<Record<string, string>>;
}

const unpackJobs = readCases<readonly Case[]>('olm/cases.json').filter((one) => one.area === 'unpack-job');

/** Returns the Job that OLM requires, from one of the upstream cases. */
function desiredJob(): JsonObject {
  const { containers, initContainers } = unpackJobs.at(-1)?.expect as JobExpectation;
  const withNames = (list: Readonly<Record<string, JsonObject>>): readonly JsonObject[] =>
    Object.entries(list).map(([name, securityContext]) => ({ name, securityContext }));
  const spec = {
    securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
    tolerations: [{ key: 'a', operator: 'Exists' }],
    containers: withNames(containers),
    initContainers: withNames(initContainers),
  };
  return { spec: { backoffLimit: 3, template: { spec } } };
}

/** Sets the field at a path such as `spec.containers[0].name`. */
function setField(object: JsonObject, path: string, value: unknown): JsonObject {
  const copy = structuredClone(object);
  const steps = path.split(/[.[\]]+/).filter((step) => step !== '');
  const last = steps.pop() ?? '';
  let parent = copy as Record<string, unknown>;
  for (const step of steps) {
    parent[step] ??= {};
    parent = parent[step] as Record<string, unknown>;
  }
  parent[last] = value;
  return copy;
}

const TOLERATIONS = [
  { key: 'a', operator: 'Exists' },
  { key: 'b', operator: 'Exists' },
];

interface HardenCase {
  readonly profile: ProfileId;
  readonly platform: string;
  readonly pod: unknown;
}

const HARDENING: Readonly<Record<string, Area>> = {
  'catalog-pod-security': area(
    (
      input: { readonly grpcPodConfig: unknown; readonly namespaceMode: string; readonly workloadUserID: number },
      expect: UpstreamPod,
    ) => {
      const labels = { [ENFORCE]: input.namespaceMode === 'legacy' ? 'baseline' : 'restricted' };
      const { mode } = catalogMode({ spec: { grpcPodConfig: input.grpcPodConfig } }, labels);
      assert.equal(mode, expect.podSecurityContext === null ? 'legacy' : 'restricted');
      verifyCatalogPod(mode, input.workloadUserID, expect);
    },
  ),
  'catalog-pod-extract': area(
    (input: { readonly mode: string; readonly workloadUserID: number }, expect: UpstreamPod) =>
      verifyCatalogPod(input.mode, input.workloadUserID, expect),
  ),
  'catalog-namespace-mode': area(
    ({ labels }: { readonly labels: Readonly<Record<string, string>> }, { mode }: { readonly mode: string }) =>
      assert.equal(catalogMode({ spec: {} }, labels).mode, mode),
  ),
  'catalog-effective-mode': area(
    (
      input: { readonly spec: unknown; readonly annotations: object; readonly namespaceEnforce: string },
      { mode }: { readonly mode: string },
    ) => {
      const annotations = 'disable-security' in input.annotations ? { [DISABLE_SECURITY_ANNOTATION]: 'true' } : {};
      const catalog = { metadata: { annotations }, spec: input.spec };
      assert.equal(catalogMode(catalog, { [ENFORCE]: input.namespaceEnforce }).mode, mode);
    },
  ),
  'seed-contexts': area(
    (
      { component }: { readonly component: string },
      expect: { readonly upstreamPod: JsonObject; readonly downstreamPod: JsonObject; readonly container: JsonObject },
    ) => {
      const profile = component === 'controller' ? 'olm-controller' : (component as ProfileId);
      const upstream = harden({ containers: named(['main']) }, profile, false).spec;
      assert.deepEqual(upstream['securityContext'], expect.upstreamPod);
      const [container] = upstream['containers'] as readonly JsonObject[];
      assert.deepEqual(container?.['securityContext'], expect.container);
      // On OpenShift, SCC admission sets runAsNonRoot in pods whose image sets no user.
      const downstream = harden({ containers: named(['main']) }, profile, true).spec;
      const { seccompProfile, ...rest } = downstream['securityContext'] as JsonObject;
      assert.deepEqual(seccompProfile, { type: 'RuntimeDefault' });
      assert.deepEqual(rest, HARDENING_PROFILES[profile].hasImageUser ? expect.downstreamPod : {});
    },
  ),
  'unpack-job': area(({ workloadUserID }: { readonly workloadUserID: number }, expect: JobExpectation) => {
    const bare = {
      containers: named(Object.keys(expect.containers)),
      initContainers: named(Object.keys(expect.initContainers)),
    };
    const { spec } = harden(bare, 'bundle-unpack', workloadUserID <= 0);
    assert.deepEqual(spec['securityContext'], expect.podSecurityContext);
    assert.deepEqual(contexts(spec['containers']), expect.containers);
    assert.deepEqual(contexts(spec['initContainers']), expect.initContainers);
    const job = { kind: 'Job', metadata: { labels: expect.labels }, containers: [], initContainers: [] };
    assert.deepEqual(recognizeWorkload(job), { profile: 'bundle-unpack' });
  }),
  'unpack-job-mutation': area(
    ({ added }: { readonly added: JsonObject }, { jobKept }: { readonly jobKept: boolean }) => {
      const desired = desiredJob();
      const live = Object.entries(added).reduce(
        (job, [path, value]) => setField(job, path, path.endsWith('tolerations') ? TOLERATIONS : value),
        desired,
      );
      assert.equal(isKeptByOlm(desired, live), jobKept);
    },
  ),
  recognition: area(
    ({ object }: RecognitionInput, expect: { readonly kind: string | null; readonly catalogSource: string | null }) => {
      const { kind, labels = {}, ownerReferences = [], containers = [], initContainers = [] } = object;
      const metadata = { labels, ownerReferences };
      const recognized = recognizeWorkload({ kind, metadata, containers, initContainers });
      assert.equal(recognized?.profile ?? null, expect.kind);
      const { name } = resolveCatalogSource(metadata, (one) => ({ metadata: { name: one, uid: 'u1' } }));
      assert.equal(expect.kind === null ? null : name || null, expect.catalogSource);
    },
  ),
  'run-bundle': area(
    (
      { flag }: { readonly flag: string },
      expect: { readonly podSecurityContext?: unknown; readonly container?: unknown; readonly error?: string },
    ) => {
      const { mode, problems } = catalogMode({ spec: { grpcPodConfig: { securityContextConfig: flag } } });
      if (expect.error !== undefined) {
        assert.ok(problems.some((problem) => problem.includes(expect.error ?? '')));
        return;
      }
      assert.deepEqual(problems, []);
      assert.equal(mode, expect.container === null ? 'legacy' : 'restricted');
      if (expect.container === null) return;
      const { spec } = harden({ containers: named(['registry-grpc']) }, 'run-bundle', false);
      assert.deepEqual(spec['securityContext'], expect.podSecurityContext);
      assert.deepEqual((spec['containers'] as readonly JsonObject[])[0]?.['securityContext'], expect.container);
    },
  ),
  'namespace-labels': area(
    (
      { namespace }: { readonly namespace: string },
      { labels }: { readonly labels: Readonly<Record<string, string>> },
    ) => {
      const proposal = proposeLabels({ namespace: { metadata: { name: namespace } }, catalogs: [], isForced: false });
      // The marketplace operator also pins the audit and warn versions. `privileged` is never proposed.
      const expected = Object.entries(labels).filter(([key]) => key.startsWith('pod-security'));
      for (const [key, value] of labels[ENFORCE] === 'privileged' ? [] : expected)
        assert.equal(proposal?.labels[key], value);
      if (labels[ENFORCE] === 'privileged') assert.deepEqual(proposal?.labels, {});
    },
  ),
  harden: area(
    (
      { profile, platform, pod }: HardenCase,
      expect: { readonly pod: unknown; readonly warnings: readonly string[] },
    ) => {
      const { spec, conflicts } = harden(pod, profile, platform === 'openshift');
      assert.deepEqual(spec, expect.pod);
      assert.deepEqual(
        conflicts.map(({ field }) => field),
        expect.warnings,
      );
    },
  ),
};

/** The areas of `olm.test.ts`. */
const LABELER_AREAS = ['csv-copied', 'exempt-namespaces', 'labeler-seed', 'labeler-shipped', 'labeler-table'];

suite('the hardening of OLM pods agrees with the recorded results', () => {
  const cases = readCases<readonly Case[]>('olm/cases.json');
  testAreas(
    cases.filter(({ area: name }) => !LABELER_AREAS.includes(name)),
    HARDENING,
  );
});
