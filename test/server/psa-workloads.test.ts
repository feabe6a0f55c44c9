/**
 * Tests the warnings and audit annotations for workloads in namespaces where SCCs apply, as API servers receive them.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import type { Kind } from '../../src/kube/kinds.ts';
import { getApiVersion, RESOURCES } from '../../src/kube/resources.ts';
import type { JsonObject } from '../../src/kube/types.ts';
import { LABEL_SYNC_MANAGER } from '../../src/kube/well-known.ts';
import { DEFAULT_FIELDS, type PodDefaults } from '../../src/policy/psa/index.ts';
import { managedFieldsEntry } from '../support/namespace-writes.ts';
import { PLAIN_DETAILS } from '../support/pod-security.ts';
import { ALICE, createSccTestWebhooks, podRequest, RANGES, type SccRigOptions } from '../support/scc-webhooks.ts';

const CONTAINER = { name: 'c', image: 'nginx' };
const PLAIN = { containers: [CONTAINER] };
const HOST_NETWORK = { hostNetwork: true, containers: [CONTAINER] };
const ROOT = { containers: [{ ...CONTAINER, securityContext: { runAsUser: 0 } }] };

const UNABLE = 'unable to validate against any security context constraint';
const HOST_NETWORK_ADVICE = [
  'The closest usable SCC is "restricted-v2". It does not allow: spec.hostNetwork=true.',
  'SCC "hostnetwork-v2" would admit the pod if service account "default" were allowed to use it. Bind ClusterRole "system:openshift:scc:hostnetwork-v2".',
];
const WILL_DENY = [`pods of this template will be denied: ${UNABLE}`, ...HOST_NETWORK_ADVICE];
const WOULD_DENY = [
  `pods of this template would be denied if security context constraints were enforced: ${UNABLE}`,
  ...HOST_NETWORK_ADVICE,
];
const wouldViolate = (details: string): string => `would violate PodSecurity "restricted:latest": ${details}`;
const RAW = wouldViolate(PLAIN_DETAILS);
const RAW_HOST_NETWORK = wouldViolate(`host namespaces (hostNetwork=true), ${PLAIN_DETAILS}`);

/** Returns an object of a kind with a pod template. */
function workload(kind: Kind, spec: JsonObject, metadata: JsonObject = {}): JsonObject {
  const path = RESOURCES[kind].podTemplate ?? [];
  const content = path.reduceRight<JsonObject>((inner, key) => ({ [key]: inner }), { metadata, spec });
  return { apiVersion: getApiVersion(kind), kind, metadata: { name: 'web', namespace: 'shop' }, ...content };
}

function workloadRequest(kind: Kind, object: unknown, change: Partial<AdmissionRequest> = {}): AdmissionRequest {
  const { group, resource } = RESOURCES[kind];
  const version = { group, version: 'v1' };
  return podRequest(object, { kind: { ...version, kind }, resource: { ...version, resource }, ...change });
}

const DEFAULTS: PodDefaults = {
  mode: 'apply',
  fields: DEFAULT_FIELDS,
  namespaceSelector: {},
  exemptNamespaces: ['kube-system'],
};

const LABELS = { 'pod-security.kubernetes.io/warn': 'restricted', 'pod-security.kubernetes.io/audit': 'restricted' };

interface Given extends SccRigOptions {
  readonly labels?: Readonly<Record<string, string>>;
  /** The SCC that the service account `builder` may use. */
  readonly scc?: string;
  readonly kind?: Kind;
  readonly metadata?: JsonObject;
  readonly spec: JsonObject;
}

function rigFor({ labels = LABELS, scc, settings, podDefaults }: Omit<Given, 'spec'>) {
  const rig = createSccTestWebhooks({ ...(settings ? { settings } : {}), ...(podDefaults ? { podDefaults } : {}) });
  rig.putNamespace(labels);
  if (scc !== undefined) {
    rig.store.put('RoleBinding', {
      metadata: { name: 'use', namespace: 'shop' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: `system:openshift:scc:${scc}` },
      subjects: [{ kind: 'ServiceAccount', name: 'builder', namespace: 'shop' }],
    });
  }
  return rig;
}

async function decide({ kind = 'Deployment', metadata, spec, ...workloadCase }: Given): Promise<Decision> {
  return await rigFor(workloadCase).decide(
    '/validate/workloads',
    workloadRequest(kind, workload(kind, spec, metadata)),
  );
}

const KINDS: readonly Kind[] = [
  'CronJob',
  'DaemonSet',
  'Deployment',
  'Job',
  'PodTemplate',
  'ReplicaSet',
  'ReplicationController',
  'StatefulSet',
];

suite('workloads of every kind with a pod template are evaluated:', () => {
  for (const kind of KINDS) {
    test(`the pods of a new ${kind} get SCC defaults before they are evaluated`, async () => {
      assert.deepEqual(await decide({ kind, spec: PLAIN }), { allowed: true });
    });
    test(`an updated ${kind} causes a warning if every SCC denies its pods`, async () => {
      const [oldObject, object] = [workload(kind, PLAIN), workload(kind, HOST_NETWORK)];
      const request = workloadRequest(kind, object, { operation: 'UPDATE', oldObject });
      assert.deepEqual(await rigFor({}).decide('/validate/workloads', request), {
        allowed: true,
        auditAnnotations: { 'audit-violations': RAW_HOST_NETWORK },
        warnings: [RAW_HOST_NETWORK, ...WILL_DENY],
      });
    });
  }
});

suite('the warnings for a Deployment depend on SCCs, pod defaults and levels:', () => {
  const ROOT_ADVICE = [
    'The closest usable SCC is "restricted-v2". It does not allow: spec.containers[0].securityContext.runAsUser=0.',
    'SCC "anyuid" would admit the pod if service account "builder" were allowed to use it. Bind ClusterRole "system:openshift:scc:anyuid".',
  ];
  const CASES: readonly (readonly [name: string, workloadCase: Given, warnings: readonly string[]])[] = [
    [
      'in report mode, the template is evaluated without SCC defaults',
      { settings: { mode: 'report' }, spec: PLAIN },
      [RAW],
    ],
    [
      'in report mode, a warning states that every SCC would deny the pods',
      { settings: { mode: 'report' }, spec: HOST_NETWORK },
      [RAW_HOST_NETWORK, ...WOULD_DENY],
    ],
    [
      'in off mode, there are no warnings about SCCs',
      { settings: { mode: 'off' }, spec: HOST_NETWORK },
      [RAW_HOST_NETWORK],
    ],
    [
      'an exempt namespace gets warnings about the unchanged template',
      { settings: { exemptNamespaces: ['shop'] }, spec: PLAIN },
      [RAW],
    ],
    [
      'a namespace whose label selects off mode gets warnings about the unchanged template',
      { labels: { ...LABELS, 'portcullis.dev/scc': 'off' }, spec: PLAIN },
      [RAW],
    ],
    [
      'pod defaults are set before the template is evaluated',
      { settings: { mode: 'off' }, podDefaults: DEFAULTS, spec: PLAIN },
      [],
    ],
    [
      'pod defaults do not change fields that the template sets',
      { settings: { mode: 'off' }, podDefaults: DEFAULTS, spec: HOST_NETWORK },
      [wouldViolate('host namespaces (hostNetwork=true)')],
    ],
    [
      'a namespace without pod defaults gets warnings about the unchanged template',
      { settings: { mode: 'off' }, podDefaults: { ...DEFAULTS, exemptNamespaces: ['shop'] }, spec: PLAIN },
      [RAW],
    ],
    [
      'in report mode, pod defaults are set although every SCC would deny the pods',
      { settings: { mode: 'report' }, podDefaults: DEFAULTS, spec: HOST_NETWORK },
      [wouldViolate('host namespaces (hostNetwork=true)'), ...WOULD_DENY],
    ],
    ['a privileged namespace gets no Pod Security warnings', { labels: {}, spec: HOST_NETWORK }, WILL_DENY],
    [
      'a service account that may use a more permissive SCC gets fewer warnings',
      { scc: 'anyuid', spec: { ...ROOT, serviceAccountName: 'builder' } },
      [
        wouldViolate(
          [
            'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)',
            'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])',
            'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
            'runAsUser=0 (container "c" must not set runAsUser=0)',
            'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
          ].join(', '),
        ),
      ],
    ],
    [
      'a service account without a grant gets a warning with the missing grant',
      { labels: {}, spec: { ...ROOT, serviceAccountName: 'builder' } },
      [WILL_DENY[0] ?? '', ...ROOT_ADVICE],
    ],
    [
      'a required SCC that does not exist is named in a warning',
      { labels: {}, metadata: { annotations: { 'openshift.io/required-scc': 'missing' } }, spec: PLAIN },
      [
        'pods of this template will be denied: failed to retrieve the required SCC "missing": securitycontextconstraints.security.openshift.io "missing" not found',
        'Annotation openshift.io/required-scc requires SCC "missing", which does not exist. Existing SCCs: anyuid, hostaccess, hostmount-anyuid, hostmount-anyuid-v2, hostnetwork, hostnetwork-v2, nested-container, nonroot, nonroot-v2, privileged and 3 more.',
      ],
    ],
    [
      'in OpenShift compatibility mode, there are no warnings from SCC admission',
      { settings: { compatibility: 'openshift' }, spec: HOST_NETWORK },
      [RAW_HOST_NETWORK],
    ],
    [
      'a template for Windows gets no warnings about SCCs',
      { spec: { ...PLAIN, os: { name: 'windows' } } },
      [wouldViolate('runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)')],
    ],
    [
      'a template with null in its containers gets a warning that it cannot be converted',
      { labels: {}, spec: { containers: [null] } },
      [
        'pods of this template will be denied: object was marked as kind pod but was unable to be converted: spec.template.spec.containers[0]: Invalid value: null: must be an object',
      ],
    ],
  ];
  for (const [name, workloadCase, warnings] of CASES) {
    test(name, async () => assert.deepEqual((await decide(workloadCase)).warnings ?? [], warnings));
  }

  test('a template that cannot be decoded causes a warning', async () => {
    assert.deepEqual(await decide({ spec: { containers: 'x' } }), {
      allowed: true,
      auditAnnotations: {
        error:
          'failed to decode object: json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container',
      },
    });
  });

  test('a change of a subresource causes no warnings', async () => {
    const request = workloadRequest('Deployment', workload('Deployment', HOST_NETWORK), {
      operation: 'UPDATE',
      requestSubResource: 'status',
    });
    assert.deepEqual(await rigFor({}).decide('/validate/workloads', request), { allowed: true });
  });
});

const TRAININGS = { group: 'example.com', version: '*', resource: 'trainings' };

const WARN = 'pod-security.kubernetes.io/warn';

suite('warnings do not depend on whether the label syncer has set the warn label:', () => {
  const ANYUID_ROOT = { ...ROOT, serviceAccountName: 'builder' };
  const CASES: readonly (readonly [name: string, level: string, workloadCase: Given, warnings: readonly string[]])[] = [
    ['an SCC sets the missing fields', 'restricted', { labels: {}, spec: PLAIN }, []],
    ['no SCC admits the pods', 'restricted', { labels: {}, spec: HOST_NETWORK }, [RAW_HOST_NETWORK, ...WILL_DENY]],
    ['the SCC requires a weaker level', 'baseline', { labels: {}, scc: 'anyuid', spec: ANYUID_ROOT }, []],
    [
      'the recorded level differs from the required level',
      'restricted',
      { labels: {}, scc: 'anyuid', spec: ANYUID_ROOT },
      [wouldViolate(PLAIN_DETAILS.replace('seccomp', 'runAsUser=0 (container "c" must not set runAsUser=0), seccomp'))],
    ],
    ['a user has set the label', 'restricted', { labels: { [WARN]: 'privileged' }, spec: HOST_NETWORK }, WILL_DENY],
    ['the recorded level is invalid', 'odd', { labels: {}, spec: HOST_NETWORK }, WILL_DENY],
  ];
  for (const [name, level, workloadCase, warnings] of CASES) {
    test(name, async () => {
      const rig = rigFor(workloadCase);
      const annotations = { ...RANGES, 'security.openshift.io/MinimallySufficientPodSecurityStandard': level };
      const synced = { labels: [WARN], annotations: Object.keys(annotations) };
      const managedFields = [managedFieldsEntry({ manager: LABEL_SYNC_MANAGER, ...synced })];
      for (const isSynced of [false, true]) {
        const labels = { ...(isSynced ? { [WARN]: 'privileged' } : {}), ...workloadCase.labels };
        const isOwned = isSynced && workloadCase.labels?.[WARN] === undefined;
        const metadata = { name: 'shop', annotations, labels, ...(isOwned ? { managedFields } : {}) };
        rig.store.put('Namespace', { metadata });
        const request = workloadRequest('Deployment', workload('Deployment', workloadCase.spec));
        assert.deepEqual((await rig.decide('/validate/workloads', request)).warnings ?? [], warnings);
      }
    });
  }
});

suite('without SCC admission, Pod Security warns about the unchanged template:', () => {
  const NAMESPACES: readonly (readonly [name: string, workloadCase: Omit<Given, 'spec'>])[] = [
    ['off mode in the cluster', { settings: { mode: 'off' } }],
    ['off mode in the namespace', { labels: { ...LABELS, 'portcullis.dev/scc': 'off' } }],
    ['an exempt namespace', { settings: { exemptNamespaces: ['shop'] } }],
    ['run level 0', { labels: { ...LABELS, 'openshift.io/run-level': '0' } }],
    ['run level 1', { labels: { ...LABELS, 'openshift.io/run-level': '1' } }],
    [
      'SCCs that a label disables',
      { labels: { ...LABELS, 'security.openshift.io/disable-securitycontextconstraints': 'true' } },
    ],
  ];
  for (const compatibility of ['openshift', 'portcullis'] as const) {
    for (const [name, { settings, ...workloadCase }] of NAMESPACES) {
      test(`${name}, compatibility ${JSON.stringify(compatibility)}`, async () => {
        const namespace = { ...workloadCase, settings: { ...settings, compatibility } };
        for (const [spec, warning] of [
          [PLAIN, RAW],
          [HOST_NETWORK, RAW_HOST_NETWORK],
        ] as const) {
          assert.deepEqual(await decide({ ...namespace, spec }), {
            allowed: true,
            auditAnnotations: { 'audit-violations': warning },
            warnings: [warning],
          });
        }
      });
    }
  }
});

suite('a namespace with an enforced restricted level and without SCCs gets Pod Security warnings', () => {
  const ENFORCE = 'pod-security.kubernetes.io/enforce';
  const OFF = { 'portcullis.dev/scc': 'off' };
  const SUFFICIENT = 'security.openshift.io/MinimallySufficientPodSecurityStandard';
  const CASES: readonly (readonly [
    name: string,
    workloadCase: Omit<Given, 'spec'> & { readonly level?: string; readonly isSynced?: boolean },
    warnings: readonly string[],
  ])[] = [
    ['without a warn label', { labels: OFF }, [RAW]],
    ['without a warn label and with a weaker sufficient level', { labels: OFF, level: 'privileged' }, [RAW]],
    ['with a synced warn label', { labels: { ...OFF, [WARN]: 'privileged' }, isSynced: true }, [RAW]],
    [
      'with a synced warn label and a weaker sufficient level',
      { labels: { ...OFF, [WARN]: 'privileged' }, isSynced: true, level: 'privileged' },
      [RAW],
    ],
    [
      'with a synced warn label, in report mode',
      { settings: { mode: 'report' }, labels: { [WARN]: 'privileged' }, isSynced: true },
      [RAW],
    ],
    [
      'with a synced warn label, in off mode in the cluster',
      { settings: { mode: 'off' }, labels: { [WARN]: 'privileged' }, isSynced: true },
      [RAW],
    ],
    [
      'with a synced warn label, in an exempt namespace',
      { settings: { exemptNamespaces: ['shop'] }, labels: { [WARN]: 'privileged' }, isSynced: true },
      [RAW],
    ],
    [
      'with a synced warn label and a run level',
      { labels: { 'openshift.io/run-level': '0', [WARN]: 'privileged' }, isSynced: true },
      [RAW],
    ],
    [
      'with a synced warn label, at the version of the enforced level',
      { labels: { ...OFF, [`${ENFORCE}-version`]: 'v1.24', [WARN]: 'privileged' }, isSynced: true },
      [RAW.replace('latest', 'v1.24')],
    ],
    ['unless a user set the warn label', { labels: { ...OFF, [WARN]: 'privileged' }, level: 'restricted' }, []],
  ];
  for (const [name, { level, isSynced = false, labels, ...workloadCase }, warnings] of CASES) {
    test(name, async () => {
      const rig = rigFor(workloadCase);
      const annotations = { ...RANGES, ...(level === undefined ? {} : { [SUFFICIENT]: level }) };
      const managedFields = [
        managedFieldsEntry({ manager: 'kubectl', labels: [ENFORCE] }),
        managedFieldsEntry({ manager: isSynced ? LABEL_SYNC_MANAGER : 'kubectl', labels: [WARN] }),
      ];
      const metadata = { name: 'shop', annotations, labels: { ...labels, [ENFORCE]: 'restricted' }, managedFields };
      rig.store.put('Namespace', { metadata });
      const request = workloadRequest('Deployment', workload('Deployment', PLAIN));
      assert.deepEqual((await rig.decide('/validate/workloads', request)).warnings ?? [], warnings);
    });
  }
});

test('the templates of a resource in the settings are evaluated', async () => {
  const workloadResources = [{ ...TRAININGS, templatePath: 'spec.*' }];
  const rig = createSccTestWebhooks({ workloadResources });
  rig.putNamespace(LABELS);
  const trainings = { group: 'example.com', version: 'v1', resource: 'trainings' };
  const request = podRequest(
    { spec: { chief: { spec: PLAIN }, worker: { spec: HOST_NETWORK }, other: { spec: HOST_NETWORK } } },
    { kind: { ...trainings, kind: 'Training' }, resource: trainings },
  );
  const violations = ['worker', 'other'].map((name) => `spec.${name}: ${RAW_HOST_NETWORK}`);
  assert.deepEqual((await rig.decide('/validate/workloads', request)).warnings, [...violations, ...WILL_DENY]);
});

suite('the number of evaluated templates is limited for an object with', () => {
  const containers = (length: number) => Array.from({ length }, (_, index) => ({ name: `c${index}`, image: 'i' }));
  const cases: readonly (readonly [name: string, templates: readonly number[], evaluated: number])[] = [
    ['many templates', Array.from({ length: 200 }, () => 1), 100],
    ['many containers in its templates', [4000, 1000, 1, 1], 2],
  ];
  for (const [name, templates, evaluated] of cases) {
    test(name, async () => {
      const rig = createSccTestWebhooks({ settings: { mode: 'off' }, workloadResources: [TRAININGS] });
      rig.putNamespace(LABELS);
      const resource = { group: TRAININGS.group, version: 'v1', resource: TRAININGS.resource };
      const spec = templates.map((count) => ({ template: { spec: { containers: containers(count) } } }));
      const request = podRequest({ spec }, { kind: { ...resource, kind: 'Training' }, resource });
      const { warnings, auditAnnotations } = await rig.decide('/validate/workloads', request);
      assert.equal(warnings?.length, evaluated);
      assert.equal(auditAnnotations?.['error'], `failed to extract pod template: spec[${evaluated}].template`);
    });
  }
});

suite('in a namespace without ranges,', () => {
  const request = workloadRequest('Deployment', workload('Deployment', PLAIN), { userInfo: ALICE });
  const shop = { metadata: { name: 'shop', labels: LABELS } };

  test('the review waits for the ranges', async () => {
    const { store, decide } = rigFor({});
    store.put('Namespace', shop);
    const decision = decide('/validate/workloads', request, 5000);
    store.put('Namespace', { metadata: { ...shop.metadata, annotations: RANGES } });
    assert.deepEqual(await decision, { allowed: true });
  });

  test('the warning after the deadline states that the ranges are missing', async () => {
    const { store, decide } = rigFor({});
    store.put('Namespace', shop);
    const { warnings } = await decide('/validate/workloads', request, 500);
    assert.deepEqual(warnings, [
      RAW,
      'pods of this template will be denied: error fetching namespace "shop": unable to find annotation openshift.io/sa.scc.uid-range',
      'Namespace "shop" has no openshift.io/sa.scc.uid-range annotation yet. Retry in a few seconds. If this persists, the range allocator is not running or has no free range (event UIDRangeFull).',
    ]);
  });

  test('the pods are evaluated in report mode with the ranges that the namespace would receive', async () => {
    const { store, decide } = rigFor({ settings: { mode: 'report' } });
    store.put('Namespace', {
      metadata: { name: 'other', annotations: { 'openshift.io/sa.scc.uid-range': '1000000000/10000' } },
    });
    store.put('Namespace', shop);
    assert.deepEqual((await decide('/validate/workloads', request)).warnings, [RAW]);
    const violating = workloadRequest('Deployment', workload('Deployment', HOST_NETWORK));
    assert.deepEqual((await decide('/validate/workloads', violating)).warnings, [RAW_HOST_NETWORK, ...WOULD_DENY]);
    const fixedUser = async (runAsUser: number) => {
      const template = workload('Deployment', { ...PLAIN, securityContext: { runAsUser } });
      return (await decide('/validate/workloads', workloadRequest('Deployment', template))).warnings?.slice(1);
    };
    assert.deepEqual(await fixedUser(1_000_010_000), []);
    assert.deepEqual((await fixedUser(1_000_000_000))?.slice(1), [
      'The closest usable SCC is "restricted-v2". It does not allow: spec.securityContext.runAsUser=1000000000.',
      'SCC "nonroot-v2" would admit the pod if service account "default" were allowed to use it. Bind ClusterRole "system:openshift:scc:nonroot-v2".',
    ]);
  });
});
