import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { V1ClusterRole } from '@kubernetes/client-node';
import { createStore } from '../../src/cluster/store.ts';
import { createObservable } from '../../src/config/settings.ts';
import type { ControllerContext, ControllerDefinition } from '../../src/controllers/controller.ts';
import {
  CONTROLLER_NAMES,
  CONTROLLERS,
  createController as createFromDefinition,
  createControllerSelector,
  enabledControllers,
} from '../../src/controllers/index.ts';
import { type Features, rbacRule, WATCH_VERBS } from '../../src/controllers/permissions.ts';
import { watchedKinds } from '../../src/controllers/watched-kinds.ts';
import { defaultSettings, PROFILES } from '../../src/install/index.ts';
import { controllerRoles, rbacObjects } from '../../src/install/rbac.ts';
import type { ManifestOf } from '../../src/install/settings.ts';
import { RESOURCES } from '../../src/kube/resources.ts';
import { createContext, createController, createTestSettings } from '../support/controllers.ts';

const ALL: Features = {
  scc: true,
  rollout: true,
  evaluation: true,
  managedCertificate: true,
  settingsObject: true,
  replicas: true,
  managedWebhooks: true,
  kubelet: true,
  kubeletTaint: true,
  olm: true,
  podDefaults: true,
};

const POLICIES = 'admission-policy-controller';
const POLICY_STANDBY = 'admission-policy-standby';
const RANGES = 'namespace-security-allocation-controller';
const STANDBY = 'namespace-security-allocation-standby';
const SCCS = 'standard-scc-controller';
const OBSERVER = 'pod-security-config-observer';
const EVALUATION = 'namespace-evaluation-controller';
const READINESS = 'PodSecurityReadinessController';
const REPORTS = 'policy-report-controller';

suite('the enabled controllers', () => {
  const disabledCases: readonly (readonly [disabled: string, missing: readonly string[]])[] = [
    [SCCS, [SCCS]],
    [RANGES, [RANGES, STANDBY]],
    [POLICIES, [POLICIES, POLICY_STANDBY]],
    [READINESS, [EVALUATION, READINESS, REPORTS]],
    [REPORTS, [REPORTS]],
  ];
  for (const [disabled, missing] of disabledCases) {
    test(`disabling ${disabled} disables ${missing.join(', ')}`, () =>
      assert.deepEqual(
        enabledControllers(ALL, [disabled]).map(({ name }) => name),
        CONTROLLER_NAMES.filter((name) => !missing.includes(name)),
      ));
  }

  test('every definition creates a controller with its name, and has a one-line description', () => {
    assert.equal(new Set(CONTROLLER_NAMES).size, CONTROLLERS.length);
    for (const definition of CONTROLLERS) {
      const { name, runsOn } = createController(definition);
      assert.deepEqual([name, runsOn], [definition.name, definition.runsOn]);
      assert.match(definition.description, /^[^\n]{20,120}$/);
    }
  });

  test('permissions to patch namespaces list the labels and annotations that require them', () => {
    const sets = CONTROLLERS.flatMap(({ permissions }) => permissions);
    const patches = sets.filter(({ clusterRules = [] }) =>
      clusterRules.some(({ resources, verbs }) => resources?.includes('namespaces') && verbs.includes('patch')),
    );
    assert.ok(patches.length > 3);
    for (const { role, namespaceKeys = [] } of patches) assert.ok(namespaceKeys.length > 0, role);
  });

  test('a new controller needs only a registry entry to run and to get its permissions into the manifests', () => {
    const example: ControllerDefinition = {
      name: 'example-controller',
      description: 'an example',
      runsOn: 'leader',
      permissions: [
        { role: 'example', clusterRules: [rbacRule(['list', 'watch'], ['Node'])] },
        { role: 'example-rollout', clusterRules: [rbacRule(['patch'], ['Pod'])], isNeeded: ({ rollout }) => rollout },
      ],
      isEnabled: ({ scc }) => scc,
      create: () => ({ sources: [], reconcile: () => Promise.resolve(undefined) }),
    };
    const registry = [...CONTROLLERS, example];
    assert.ok(enabledControllers(ALL, [], registry).includes(example));
    assert.equal(createFromDefinition(example, {} as ControllerContext).name, example.name);
    const roles = (settings: object): readonly string[] =>
      controllerRoles({ ...defaultSettings('1.0.0'), ...settings }, registry)
        .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
        .filter((one) => one.includes('example'));
    assert.equal(roles(PROFILES.scc).length, 4);
    assert.deepEqual(roles({ features: { ...PROFILES.scc.features, rollout: false } }), [
      'ClusterRole portcullis-example',
      'ClusterRoleBinding portcullis-example',
    ]);
    assert.deepEqual(roles({}), []);
  });
});

test('a change to the SCC or range settings restarts the controllers that read them', () => {
  const settings = createObservable(createTestSettings({}).value);
  const select = createControllerSelector(createContext({ settings }), () => ALL, createStore());
  const before = select();
  assert.deepEqual(select(), before);
  settings.set({ ...settings.value, ranges: { ...settings.value.ranges, labelsPerBlock: 3 } });
  const replaced = select().filter((one) => !before.includes(one));
  assert.deepEqual(
    replaced.map(({ name }) => name),
    [RANGES, STANDBY, OBSERVER, EVALUATION],
  );
});

test('the manifests permit each watch of a replica', () => {
  const settings = createTestSettings({ phase: 'Enforce' }).value;
  const features = ['scc', 'kubelet', 'olm', 'rollout'] as const;
  const sources = { hasSettingsObject: true, hasManagedCertificate: true, hasService: true };
  const watched = watchedKinds({ settings, features, ...sources }, 'portcullis');
  const installed = { ...defaultSettings('1.0.0'), features: { scc: true, kubelet: true, olm: true, rollout: true } };
  const granted = rbacObjects(installed).flatMap((role) =>
    'rules' in role ? ((role as ManifestOf<V1ClusterRole>).rules ?? []) : [],
  );
  const missing = watched.filter(({ scope: { kind, name } }) => {
    const { group, resource } = RESOURCES[kind];
    const isGranted = ({ apiGroups, resources, resourceNames, verbs }: (typeof granted)[number]): boolean =>
      apiGroups?.includes(group) === true &&
      resources?.includes(resource) === true &&
      (resourceNames === undefined || resourceNames.includes(name ?? '')) &&
      WATCH_VERBS.every((verb) => verbs.includes(verb));
    return !granted.some(isGranted);
  });
  assert.deepEqual(missing, []);
  assert.ok(watched.length > 25);
});
