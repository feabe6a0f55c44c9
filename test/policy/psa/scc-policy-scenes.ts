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

export const OLD: JsonObject = {
  metadata: {
    name: 'p',
    labels: { a: 'b' },
    annotations: { x: 'y', 'k8s.ovn.org/pod-networks': '{}' },
    finalizers: ['f/f'],
  },
  spec: { ...(podWith({ hostNetwork: true })['spec'] as JsonObject), schedulingGates: [{ name: 'g' }] },
};

function changed(part: 'metadata' | 'spec', change: JsonObject): JsonObject {
  return { ...OLD, [part]: { ...(OLD[part] as JsonObject), ...change } };
}

/** Updates of a pod: whether SCC admission evaluates them, and whether the level of pods without an SCC applies. */
export const UPDATES: readonly (readonly [
  name: string,
  pod: JsonObject,
  named: boolean,
  unnamed: boolean,
  subResource?: string,
])[] = [
  ['nothing', OLD, false, false],
  ['a status', { ...OLD, status: { phase: 'Running' } }, false, false],
  ['finalizers', changed('metadata', { finalizers: [] }), false, false],
  ['a removed scheduling gate', { ...OLD, spec: podWith({ hostNetwork: true })['spec'] }, false, false],
  [
    'the annotation of the network',
    changed('metadata', { annotations: { x: 'y', 'k8s.ovn.org/pod-networks': '' } }),
    false,
    false,
  ],
  ['another scheduling gate', changed('spec', { schedulingGates: [{ name: 'h' }] }), false, false],
  ['no annotation of the network', changed('metadata', { annotations: { x: 'y' } }), false, false],
  [
    'another annotation',
    changed('metadata', { annotations: { x: 'z', 'k8s.ovn.org/pod-networks': '{}' } }),
    true,
    false,
  ],
  ['a removed annotation', changed('metadata', { annotations: {} }), true, false],
  ['labels', changed('metadata', { labels: {} }), true, false],
  [
    'a removed field',
    {
      ...OLD,
      spec: { schedulingGates: [{ name: 'g' }], containers: [{ name: 'app', image: 'app:1' }], hostNetwork: true },
    },
    true,
    false,
  ],
  ['tolerations', changed('spec', { tolerations: [{ operator: 'Exists' }] }), true, false],
  [
    'resources',
    changed('spec', { containers: [{ name: 'app', image: 'app:1', resources: { limits: { cpu: '1' } } }] }),
    true,
    false,
    'resize',
  ],
  ['an image', changed('spec', { containers: [{ name: 'app', image: 'app:2' }] }), true, true],
  [
    'an ephemeral container',
    changed('spec', { ephemeralContainers: [{ name: 'e', image: 'e' }] }),
    true,
    true,
    'ephemeralcontainers',
  ],
];

/** A pod under an SCC that is usable, with the decision of the validating pass. */
export interface Scene {
  readonly name: string;
  readonly input: ListedInput;
  readonly scc: ListedInput['sccs'][number];
}

function createScenes(
  name: string,
  fields: JsonObject,
  pods: readonly JsonObject[],
  ranges?: string,
  mcs = 's0:c26,c5',
): Scene[] {
  const scc = laxScc({ name: 'some', groups: ['system:authenticated'], ...fields });
  const annotations = {
    'openshift.io/sa.scc.uid-range': ranges?.split(',')[0] ?? '1000/10',
    'openshift.io/sa.scc.mcs': mcs,
    ...(ranges !== undefined && { 'openshift.io/sa.scc.supplemental-groups': ranges }),
  };
  const namespace = { metadata: { name: 'demo', annotations } };
  return pods.map((spec) => ({
    name: `${name} ${JSON.stringify(spec)}`,
    input: request({ object: podWith(spec), sccs: [scc], namespace }),
    scc,
  }));
}

const both = (context: JsonObject): JsonObject[] => [
  { securityContext: context },
  { containers: [{ name: 'a', image: 'i:1', securityContext: context }] },
  { securityContext: context, containers: [{ name: 'a', image: 'i:1', securityContext: context }] },
];

const LEVELS = [
  's0:c26,c5',
  's0:c5,c26',
  's0:c26,c26',
  's0:c5,c5',
  's1:c26,c5',
  's0,c26:c5',
  's0:c26,c6',
  's0:c26:c5',
  's0:c26:c1,c5',
  's0:c5,c26:c1',
  's0:c1,c2,c3',
  's0:c3,c2,c1',
  's0',
  'c26,c5',
  '',
];

const BLOCKS = [
  '5/10',
  '5-10',
  ' 5/ 10 x',
  '0/0',
  '5/0',
  '4294967295/2',
  '4294967296/1',
  '1/4294967296',
  '0-4294967296',
  '0/4294967295',
  '5/',
  '5',
  '5-7/3',
  '5/10,20-21',
  '5/10,x',
  '5/10,4294967296/1',
  'x',
  '',
];

const TOKEN = { serviceAccountToken: { path: 'token' } };
const configMap = (name: string, key: string, path = key, ...more: JsonObject[]): JsonObject => ({
  configMap: { name, items: [{ key, path }, ...more] },
});
const downward = (path: string, apiVersion: string, fieldPath: string): JsonObject => ({
  path,
  fieldRef: { apiVersion, fieldPath },
});
const NAMESPACE_ITEM = downward('namespace', 'v1', 'metadata.namespace');
const SOURCES: readonly JsonObject[][] = [
  [],
  [
    TOKEN,
    configMap('kube-root-ca.crt', 'ca.crt'),
    configMap('openshift-service-ca.crt', 'service-ca.crt'),
    { downwardAPI: { items: [NAMESPACE_ITEM] } },
  ],
  [{ serviceAccountToken: { path: 'other' } }],
  [{ serviceAccountToken: { path: 'token', audience: 'vault' } }],
  [{ secret: { name: 's' } }],
  [{ configMap: { name: 'kube-root-ca.crt' } }],
  [configMap('other', 'ca.crt')],
  [configMap('kube-root-ca.crt', 'other', 'ca.crt')],
  [configMap('kube-root-ca.crt', 'ca.crt', 'other')],
  [configMap('kube-root-ca.crt', 'ca.crt', 'ca.crt', { key: 'ca.crt', path: 'ca.crt' })],
  [configMap('openshift-service-ca.crt', 'other', 'service-ca.crt')],
  [configMap('openshift-service-ca.crt', 'service-ca.crt', 'other')],
  [
    configMap('openshift-service-ca.crt', 'service-ca.crt', 'service-ca.crt', {
      key: 'service-ca.crt',
      path: 'service-ca.crt',
    }),
  ],
  [{ downwardAPI: {} }],
  [{ downwardAPI: { items: [downward('other', 'v1', 'metadata.namespace')] } }],
  [{ downwardAPI: { items: [downward('namespace', 'v2', 'metadata.namespace')] } }],
  [{ downwardAPI: { items: [downward('namespace', 'v1', 'metadata.name')] } }],
  [{ downwardAPI: { items: [NAMESPACE_ITEM, downward('other', 'v1', 'metadata.name')] } }],
  [{ downwardAPI: { items: [{ path: 'namespace' }] } }],
  [TOKEN, { secret: { name: 's' } }],
];
const RENAMED = [undefined, 'cephfs', 'vsphereVolume', 'storageos'].map((type) => ({
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
  return lists.flatMap((seccompProfiles) => {
    const [scene] = createScenes('seccomp', { seccompProfiles }, [{}]);
    return FIELDS.flatMap((seccompProfile) =>
      both(seccompProfile ? { seccompProfile } : {}).flatMap((spec) =>
        [[], ...PROFILES.flatMap((profile) => keys.map((key) => [[key, profile]]))].flatMap((annotations) => {
          if (!scene) return [];
          const object = podWith(spec, { annotations: Object.fromEntries(annotations) });
          const name = JSON.stringify([seccompProfiles, object]);
          return [{ ...scene, name, input: { ...scene.input, object } }];
        }),
      ),
    );
  });
}

/** The pods of each strategy at the borders of what an SCC allows. */
export function listScenes(): readonly Scene[] {
  const users = [4, 5, 10, 14, 15, 21, 4294967295].map((runAsUser) => ({ runAsUser, runAsNonRoot: true }));
  const groups = [0, 1, 4, 5, 6, 10, 14, 20, 21, 22].flatMap((id) => [
    { fsGroup: id },
    { supplementalGroups: [id] },
    { supplementalGroups: [id, 5] },
  ]);
  const mustRunAs = { type: 'MustRunAs' };
  return [
    ...LEVELS.flatMap((level) =>
      createScenes(
        level,
        { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { level } } },
        LEVELS.flatMap((own) => both({ seLinuxOptions: { level: own } })),
      ),
    ),
    ...BLOCKS.flatMap((ranges) =>
      createScenes(ranges, { runAsUser: { type: 'MustRunAsRange' } }, users.flatMap(both), ranges),
    ),
    ...[...BLOCKS, undefined].flatMap((ranges) =>
      createScenes(
        ranges ?? '',
        { fsGroup: mustRunAs, supplementalGroups: mustRunAs },
        groups.map((one) => ({ securityContext: { fsGroup: 5, supplementalGroups: [5], ...one } })),
        ranges,
      ),
    ),
    ...[{ max: 5 }, { min: 0 }, {}].flatMap((range) =>
      createScenes(
        JSON.stringify(range),
        { fsGroup: { ...mustRunAs, ranges: [range] }, supplementalGroups: { ...mustRunAs, ranges: [range] } },
        groups.map((securityContext) => ({
          securityContext: { fsGroup: 0, supplementalGroups: [0], ...securityContext },
        })),
      ),
    ),
    ...[
      { type: 'MustRunAs' },
      { type: 'MustRunAsRange', uidRangeMin: 1 },
      { type: 'MustRunAsRange', uidRangeMax: 2000 },
      { type: '' },
      { type: 'MustRunAsNonRoot' },
      { type: 'RunAsAny' },
    ].flatMap((runAsUser) =>
      createScenes(
        runAsUser.type,
        { runAsUser },
        [
          { runAsUser: 1 },
          { runAsUser: 1001 },
          { runAsUser: 0, runAsNonRoot: true },
          { runAsUser: 1001, runAsNonRoot: true },
          { runAsNonRoot: true },
        ].flatMap(both),
      ),
    ),
    ...[['secret'], ['*'], ['emptyDir']].flatMap((volumes) =>
      createScenes(
        volumes.join(),
        { volumes },
        SOURCES.map((sources) => ({ volumes: [{ name: 'v', projected: { sources } }] })),
      ),
    ),
    ...[
      ['cephFS', 'vsphere', 'storageOS'],
      ['cephfs', 'vsphereVolume', 'storageos'],
    ].flatMap((volumes) => createScenes(volumes.join(), { volumes }, RENAMED)),
    ...[['flexVolume'], ['*'], ['flexVolume', 'secret'], ['secret']].flatMap((volumes) =>
      [[], [{ driver: 'a/a' }]].flatMap((allowedFlexVolumes) =>
        createScenes(volumes.join(), { volumes, allowedFlexVolumes }, FLEX),
      ),
    ),
    ...createScenes(
      'sysctls',
      { allowedUnsafeSysctls: ['ab*'], forbiddenSysctls: ['abc*', 'x'] },
      [...SAFE_SYSCTLS.map(({ name }) => name), 'a', 'ab', 'abc', 'abcd', 'x', 'xx'].map((name) => ({
        securityContext: { sysctls: [{ name, value: '1' }] },
      })),
    ),
    ...[false, true].flatMap((allowHostPorts) =>
      createScenes(
        'ports',
        { allowHostPorts },
        [0, 1, 80].map((hostPort) => ({
          containers: [{ name: 'a', image: 'i:1', ports: [{ containerPort: 80, hostPort }] }],
        })),
      ),
    ),
    ...createScenes('no level', { seLinuxContext: mustRunAs }, both({ seLinuxOptions: {} }), '1000/10', ''),
    ...createScenes('two containers', {}, [
      {
        containers: ['a', 'b'].map((name) => ({
          name,
          securityContext: { privileged: true },
          ports: [{ hostPort: 80 }],
        })),
      },
    ]),
    ...seccompScenes(),
  ];
}
