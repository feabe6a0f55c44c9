/** The requests of the tests of the policies for SCCs. */
import { POD_SCC_ANNOTATIONS } from '../../../src/kube/scc.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { SAFE_SYSCTLS } from '../../../src/policy/pod/safe-sysctls.ts';
import { assignScc } from '../../../src/policy/scc/index.ts';
import { laxScc } from '../../support/scc.ts';
import type { ListedInput } from '../scc/arbitrary.ts';
import { naming, podWith, request } from '../scc/requests.ts';

export const FORBIDDEN = 'unable to validate against any security context constraint: [provider';
const TOO_LARGE =
  'too many containers, volumes, ports, capabilities, sysctls and groups (policies in the API server evaluate at most 500)';
const HOST_NETWORK = 'the pod violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)';

/** A pod that restricted-v2 has admitted, with changes. */
function admitted(spec: JsonObject = {}, annotations: JsonObject = {}): JsonObject {
  const decision = assignScc(request({}));
  const pod = (decision.allowed ? decision.object : {}) as { readonly metadata: JsonObject; readonly spec: JsonObject };
  const { metadata } = pod;
  const all = { ...(metadata['annotations'] as JsonObject), ...annotations };
  return { ...pod, metadata: { ...metadata, annotations: all }, spec: { ...pod.spec, ...spec } };
}

const groups = (count: number): JsonObject => ({ supplementalGroups: Array.from({ length: count }, () => 5) });
const containers = (count: number): JsonObject => ({
  containers: Array.from({ length: count }, (_, index) => ({ name: `c${index}`, image: 'i:1' })),
});

/** The requests of alice, and the denial. */
export const DENIALS: readonly (readonly [name: string, given: Partial<ListedInput>, denial: string | undefined])[] = [
  ['an SCC that the pod fits', { object: admitted() }, undefined],
  [
    'an SCC that is not usable',
    { object: naming('privileged', podWith({})) },
    `${FORBIDDEN} "privileged": Forbidden: not usable by user or serviceaccount]`,
  ],
  [
    'several fields of the pod and of containers',
    {
      object: admitted({
        hostNetwork: true,
        containers: [
          { name: 'a', image: 'i:1', securityContext: { privileged: true } },
          { name: 'b', image: 'i:1' },
        ],
      }),
    },
    `${FORBIDDEN} restricted-v2: Forbidden: .spec.hostNetwork, runAsUser of containers "a", "b", privileged of container "a", capabilities of containers "a", "b", allowPrivilegeEscalation of containers "a", "b"]`,
  ],
  [
    'a namespace without ranges',
    { object: admitted(), namespace: { metadata: { name: 'demo' } } },
    'error fetching namespace "demo": unable to find annotation openshift.io/sa.scc.uid-range',
  ],
  [
    'another SCC than the required one',
    { object: admitted({}, { [POD_SCC_ANNOTATIONS.requiredScc]: 'nonroot-v2' }) },
    'required scc/nonroot-v2 does not match the suggested scc/restricted-v2',
  ],
  [
    'too many items',
    { object: admitted({ securityContext: groups(499) }) },
    `${FORBIDDEN} restricted-v2: Forbidden: ${TOO_LARGE}]`,
  ],
  [
    'too many containers',
    { object: admitted(containers(501)) },
    `${FORBIDDEN} restricted-v2: Forbidden: ${TOO_LARGE}]`,
  ],
  [
    'no annotation',
    { object: podWith({ hostNetwork: true }) },
    `annotation openshift.io/scc names no SCC, and ${HOST_NETWORK}`,
  ],
  [
    'an unknown SCC',
    { object: naming('nope', podWith({ hostNetwork: true })) },
    `annotation openshift.io/scc names the unknown SCC "nope", and ${HOST_NETWORK}`,
  ],
  ['a pod of the fallback level', { object: podWith({}) }, undefined],
  ['a Windows pod', { object: naming('privileged', podWith({ os: { name: 'windows' } })) }, undefined],
];

/** Labels of a namespace, and whether a plain pod and one with a host network pass, with baseline as default level. */
export const FALLBACK_LEVELS: readonly (readonly [
  labels: Readonly<Record<string, string>>,
  plain: boolean,
  hostPod: boolean,
])[] = [
  [{}, true, false],
  [{ 'scc.portcullis.dev/fallback-level': 'restricted' }, false, false],
  [{ 'scc.portcullis.dev/fallback-level': 'privileged' }, true, true],
  [{ 'scc.portcullis.dev/fallback-level': 'Privileged' }, false, false],
  [{ 'portcullis.dev/admission': 'fail-open' }, true, true],
  [{ 'portcullis.dev/admission': 'other' }, true, false],
  [{ 'portcullis.dev/admission': 'fail-open', 'scc.portcullis.dev/fallback-level': 'baseline' }, true, false],
];

const OLD_METADATA = { name: 'p', labels: { a: 'b' }, annotations: { x: 'y', 'k8s.ovn.org/pod-networks': '{}' } };
const { spec: SPEC } = podWith({ hostNetwork: true }) as { readonly spec: JsonObject };
const GATED = { ...SPEC, schedulingGates: [{ name: 'g' }] };
export const OLD: JsonObject = { metadata: { ...OLD_METADATA, finalizers: ['f/f'] }, spec: GATED };

function withAnnotations(annotations: JsonObject): JsonObject {
  return { metadata: { ...OLD_METADATA, annotations } };
}

function withContainer(container: JsonObject): JsonObject {
  return { spec: { ...GATED, containers: [{ name: 'app', image: 'app:1', ...container }] } };
}

interface Update {
  readonly name: string;
  /** The changed parts of the pod. */
  readonly change: JsonObject;
  readonly subResource?: string;
  /** Whether SCC admission evaluates it. */
  readonly named?: true;
  /** Whether the level of pods without an SCC applies. */
  readonly unnamed?: true;
}

/** Updates of a pod. */
export const UPDATES: readonly Update[] = [
  { name: 'nothing', change: {} },
  { name: 'a status', change: { status: { phase: 'Running' } } },
  { name: 'finalizers', change: { metadata: OLD_METADATA } },
  { name: 'no scheduling gate', change: { spec: SPEC } },
  { name: 'another scheduling gate', change: { spec: { ...SPEC, schedulingGates: [{ name: 'h' }] } } },
  { name: 'the network', change: withAnnotations({ x: 'y', 'k8s.ovn.org/pod-networks': '' }) },
  { name: 'no network', change: withAnnotations({ x: 'y' }) },
  { name: 'an annotation', change: withAnnotations({ x: 'z', 'k8s.ovn.org/pod-networks': '{}' }), named: true },
  { name: 'no annotation', change: withAnnotations({}), named: true },
  { name: 'no labels', change: { metadata: { ...OLD_METADATA, labels: {} } }, named: true },
  { name: 'a removed field', change: { spec: { containers: SPEC['containers'], hostNetwork: true } }, named: true },
  { name: 'tolerations', change: { spec: { ...GATED, tolerations: [{ operator: 'Exists' }] } }, named: true },
  {
    name: 'resources',
    change: withContainer({ resources: { limits: { cpu: '1' } } }),
    subResource: 'resize',
    named: true,
  },
  { name: 'an image', change: withContainer({ image: 'app:2' }), named: true, unnamed: true },
  {
    name: 'an ephemeral container',
    change: { spec: { ...GATED, ephemeralContainers: [{ name: 'e', image: 'e' }] } },
    subResource: 'ephemeralcontainers',
    named: true,
    unnamed: true,
  },
];

/** A pod under an SCC that is usable, with the decision of the validating pass. */
export interface Scene {
  readonly name: string;
  readonly input: ListedInput;
  readonly scc: ListedInput['sccs'][number];
}

interface Ranges {
  readonly ids?: string | undefined;
  readonly level?: string;
}

/** Each pod spec under each SCC, which allows everything except for the given fields, in a namespace with ranges. */
function combine(sccs: readonly JsonObject[], specs: readonly JsonObject[], ranges: Ranges = {}): Scene[] {
  const { ids, level = 's0:c26,c5' } = ranges;
  const annotations = {
    'openshift.io/sa.scc.uid-range': ids?.split(',')[0] ?? '5/10',
    'openshift.io/sa.scc.mcs': level,
    ...(ids !== undefined && { 'openshift.io/sa.scc.supplemental-groups': ids }),
  };
  const namespace = { metadata: { name: 'demo', annotations } };
  return sccs.flatMap((fields) => {
    const scc = laxScc({ name: 'some', groups: ['system:authenticated'], ...fields });
    return specs.map((spec) => {
      const name = JSON.stringify({ fields, spec, ranges });
      return { name, input: request({ object: podWith(spec), sccs: [scc], namespace }), scc };
    });
  });
}

const both = (context: JsonObject): JsonObject[] => [
  { securityContext: context },
  { containers: [{ name: 'a', image: 'i:1', securityContext: context }] },
  { securityContext: context, containers: [{ name: 'a', image: 'i:1', securityContext: context }] },
];

const LEVELS =
  's0:c26,c5|s0:c5,c26|s0:c26,c26|s0:c5,c5|s1:c26,c5|s0,c26:c5|s0:c26,c6|s0:c26:c5|s0:c26:c1,c5|s0:c5,c26:c1|s0:c1,c2,c3|s0:c3,c2,c1|s0|c26,c5|'.split(
    '|',
  );

const BLOCKS =
  '5/10|5-10| 5/ 10 x|0/0|5/0|4294967295/2|4294967296/1|1/4294967296|0-4294967296|0/4294967295|5/|5|5-7/3|5/10,20-21|5/10,x|5/10,4294967296/1|x|'.split(
    '|',
  );

const TOKEN = { serviceAccountToken: { path: 'token', audience: '' } };
const configMap = (name: string, key: string): JsonObject => ({ configMap: { name, items: [{ key, path: key }] } });
const NAMESPACE_ITEM = { path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } };
/** What the API server injects. */
const INJECTED: readonly object[] = [
  TOKEN,
  configMap('kube-root-ca.crt', 'ca.crt'),
  configMap('openshift-service-ca.crt', 'service-ca.crt'),
  { downwardAPI: { items: [NAMESPACE_ITEM] } },
];

/** The copies of a JSON text with one string value replaced, or one list repeated. */
function alter(sources: readonly object[]): unknown[] {
  const text = JSON.stringify(sources);
  return [...text.matchAll(/:"[^"]*"|(?<="items":\[)(?=({[^\]]*}))/g)].map((match) => {
    const altered = match[1] === undefined ? ':"other"' : `${match[1]},`;
    return JSON.parse(text.slice(0, match.index) + altered + text.slice(match.index + match[0].length)) as unknown;
  });
}

const SOURCES: readonly unknown[] = [
  [],
  INJECTED,
  ...alter(INJECTED),
  [{ downwardAPI: {} }],
  [{ downwardAPI: { items: [NAMESPACE_ITEM, { path: 'other' }] } }],
  [{ downwardAPI: { items: [{ path: 'namespace' }] } }],
  [{ configMap: { name: 'kube-root-ca.crt' } }],
  [TOKEN, { secret: { name: 's' } }],
];
const RENAMED_SOURCES = ['cephfs', 'vsphereVolume', 'storageos'];
const RENAMED = [undefined, ...RENAMED_SOURCES].map((type) => ({
  volumes: [{ name: 'v', ...(type && { [type]: {} }) }],
}));
const FLEX = ['a/a', 'b/b'].map((driver) => ({ volumes: [{ name: 'v', flexVolume: { driver } }] }));

const PROFILES = ['runtime/default', 'docker/default', 'unconfined', 'localhost/a', 'localhost/', 'odd', ''];
const FIELDS = [
  { type: 'RuntimeDefault' },
  { type: 'Unconfined' },
  { type: 'Localhost', localhostProfile: 'a' },
  { type: 'Localhost' },
  undefined,
];

/** Pods whose seccomp annotation and field are equal or differ, for the pod or for a container. */
function seccompScenes(): Scene[] {
  const lists = [
    [],
    ['*'],
    ['', 'unconfined'],
    ['unconfined', 'localhost/a'],
    ['*', 'runtime/default'],
    ['docker/default'],
  ];
  const keys = ['seccomp.security.alpha.kubernetes.io/pod', 'container.seccomp.security.alpha.kubernetes.io/a'];
  const annotations = [{}, ...PROFILES.flatMap((profile) => keys.map((key) => ({ [key]: profile })))];
  const specs = FIELDS.flatMap((seccompProfile) => both(seccompProfile ? { seccompProfile } : {}));
  const sccs = lists.map((seccompProfiles) => ({ seccompProfiles }));
  return combine(sccs, specs).flatMap(({ name, input, scc }) =>
    annotations.map((all) => {
      const object = { ...(input.object as JsonObject), metadata: { annotations: all } };
      return { name: `${name} ${JSON.stringify(all)}`, input: { ...input, object }, scc };
    }),
  );
}

const MUST_RUN_AS = { type: 'MustRunAs' };

/** Pods with two valid groups, one of which is replaced. */
function groupSpecs(valid: number): JsonObject[] {
  return [0, 1, 4, 5, 6, 10, 14, 20, 21, 22].flatMap((id) =>
    [{ fsGroup: id }, { supplementalGroups: [id] }, { supplementalGroups: [id, valid] }].map((groups) => ({
      securityContext: { fsGroup: valid, supplementalGroups: [valid], ...groups },
    })),
  );
}

const withPorts = (name: string, hostPort: number, more: JsonObject = {}): JsonObject => ({
  name,
  ports: [{ hostPort }],
  ...more,
});

/** The pods of each strategy at the borders of what an SCC allows. */
export function listScenes(): readonly Scene[] {
  const users = [4, 5, 10, 14, 15, 21, 4294967295].map((runAsUser) => ({ runAsUser, runAsNonRoot: true }));
  const ranges = [{ max: 5 }, { min: 0 }, {}].map((range) => ({ ...MUST_RUN_AS, ranges: [range] }));
  const userTypes = [
    ...['', 'MustRunAs', 'MustRunAsNonRoot', 'RunAsAny'].map((type) => ({ type })),
    { type: 'MustRunAsRange', uidRangeMin: 1 },
    { type: 'MustRunAsRange', uidRangeMax: 2000 },
  ];
  const roots = [{ runAsUser: 0, runAsNonRoot: true }, { runAsNonRoot: true }, { runAsUser: 1 }, { runAsUser: 7 }];
  const sysctls = [...SAFE_SYSCTLS.map(({ name }) => name), 'a', 'ab', 'abc', 'abcd', 'x', 'xx'];
  const flexTypes = [['flexVolume'], ['*'], ['flexVolume', 'secret'], ['secret']];
  const privileged = { securityContext: { privileged: true } };
  return [
    ...combine(
      LEVELS.map((level) => ({ seLinuxContext: { ...MUST_RUN_AS, seLinuxOptions: { level } } })),
      LEVELS.flatMap((level) => both({ seLinuxOptions: { level } })),
    ),
    ...combine([{ seLinuxContext: MUST_RUN_AS }], both({ seLinuxOptions: {} }), { level: '' }),
    ...[...BLOCKS, undefined].flatMap((ids) => [
      ...combine([{ runAsUser: { type: 'MustRunAsRange' } }], users.flatMap(both), { ids }),
      ...combine([{ fsGroup: MUST_RUN_AS, supplementalGroups: MUST_RUN_AS }], groupSpecs(5), { ids }),
    ]),
    ...combine(
      ranges.map((range) => ({ fsGroup: range, supplementalGroups: range })),
      groupSpecs(0),
    ),
    ...combine(
      userTypes.map((runAsUser) => ({ runAsUser })),
      [...roots, ...users].flatMap(both),
    ),
    ...combine(
      [{ volumes: ['secret'] }, { volumes: ['*'] }, { volumes: ['emptyDir'] }],
      SOURCES.map((sources) => ({ volumes: [{ name: 'v', projected: { sources } }] })),
    ),
    ...combine([{ volumes: ['cephFS', 'vsphere', 'storageOS'] }, { volumes: RENAMED_SOURCES }], RENAMED),
    ...combine(
      flexTypes.flatMap((volumes) => [{ volumes }, { volumes, allowedFlexVolumes: [{ driver: 'a/a' }] }]),
      FLEX,
    ),
    ...combine(
      [{ allowedUnsafeSysctls: ['ab*'], forbiddenSysctls: ['abc*', 'x'] }],
      sysctls.map((name) => ({ securityContext: { sysctls: [{ name, value: '1' }] } })),
    ),
    ...combine(
      [{}, { allowHostPorts: true }],
      [0, 1, 80].map((port) => ({ containers: [withPorts('a', port)] })),
    ),
    ...combine([{}], [{ containers: [withPorts('a', 80, privileged), withPorts('b', 80, privileged)] }]),
    ...seccompScenes(),
  ];
}
