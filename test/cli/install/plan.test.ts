import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import {
  type ClusterFacts,
  planForCluster,
  planForProfile,
  type InstallRequest,
} from '../../../src/cli/commands/install.ts';
import { defaultSettings, type ManifestSettings } from '../../../src/install/index.ts';

const defaults = defaultSettings('1.2.3');
const PLAIN: ClusterFacts = {
  server: 'https://c:6443',
  version: 'v1.36.3',
  groups: ['apps', 'batch'],
  sccDefinition: 'none',
  nodeLabels: ['kubernetes.io/os'],
};
const OPENSHIFT = ['config.openshift.io', 'route.openshift.io', 'security.openshift.io'];

interface Case {
  readonly name: string;
  readonly facts?: Partial<ClusterFacts>;
  readonly wanted?: Partial<ManifestSettings>;
  readonly settings?: Partial<ManifestSettings>;
  readonly notes?: readonly string[];
  readonly problem?: string;
}

const CASES: readonly Case[] = [
  { name: 'a plain cluster' },
  {
    name: 'what is asked for by name',
    wanted: { replicas: 5, sccMode: 'enforce' },
    settings: { replicas: 5, sccMode: 'enforce' },
  },
  {
    name: 'OpenShift',
    facts: { groups: OPENSHIFT, sccDefinition: 'others' },
    settings: { sccMode: 'off', rollout: 'Disabled' },
    notes: ['detected OpenShift, which manages SCCs, their definitions and ranges'],
  },
  {
    name: 'SCCs twice on OpenShift',
    facts: { groups: OPENSHIFT },
    wanted: { sccMode: 'report' },
    problem:
      '--scc-mode=report: OpenShift has its own SCC admission, which conflicts with that of Portcullis: use --scc-mode=off',
  },
  {
    name: 'the Prometheus operator',
    facts: { groups: ['monitoring.coreos.com'] },
    settings: { monitoring: 'prometheus-operator' },
    notes: [
      'detected the Prometheus operator: the output contains a ServiceMonitor and alerts; --monitoring=false omits them',
    ],
  },
  {
    name: 'the Prometheus operator, not wanted',
    facts: { groups: ['monitoring.coreos.com'] },
    wanted: { monitoring: 'none' },
  },
  {
    name: 'no Prometheus operator, but wanted',
    wanted: { monitoring: 'prometheus-operator' },
    problem:
      '--monitoring: https://c:6443 does not serve monitoring.coreos.com: install the Prometheus operator first, or remove the option',
  },
  {
    name: 'cert-manager',
    facts: { groups: ['cert-manager.io'] },
    notes: [
      'detected cert-manager: with --cert-manager it issues the serving certificate, otherwise created by the replicas',
    ],
  },
  {
    name: 'cert-manager, wanted',
    facts: { groups: ['cert-manager.io'] },
    wanted: { certificates: 'cert-manager' },
    settings: { certificates: 'cert-manager' },
  },
  {
    name: 'no cert-manager, but wanted',
    wanted: { certificates: 'cert-manager' },
    problem:
      '--cert-manager: https://c:6443 does not serve cert-manager.io: install cert-manager first, or remove the option',
  },
  {
    name: 'an old cluster',
    facts: { version: 'v1.29.14' },
    problem: 'https://c:6443 runs Kubernetes v1.29.14: v1.30 or newer is required for match conditions',
  },
  { name: 'a development build', facts: { version: 'v0.0.0-master+$Format:%H$' } },
  {
    name: 'SCCs of somebody else',
    facts: { sccDefinition: 'others' },
    notes: ['the definition of SCCs belongs to another product and is replaced'],
  },
  {
    name: 'SCCs of somebody else, not wanted',
    facts: { sccDefinition: 'others' },
    wanted: { sccMode: 'off' },
    settings: { sccMode: 'off' },
  },
  {
    name: 'SCCs of our own',
    facts: { sccDefinition: 'portcullis', groups: ['config.openshift.io', 'security.openshift.io'] },
  },
  {
    name: 'little to see',
    facts: { sccDefinition: 'unknown', nodeLabels: [] },
    notes: ['cannot read whether SCCs are defined: the output contains their definition'],
  },
  {
    name: 'GKE',
    facts: { version: 'v1.33.5-gke.1080000' },
    notes: [
      'detected Google Kubernetes Engine: in a private cluster, a firewall rule must allow the control plane to reach TCP port 8443 of the nodes',
    ],
  },
  {
    name: 'EKS',
    facts: { version: 'v1.33.5-eks-3025e55' },
    notes: [
      'detected Amazon EKS: the security group of the nodes must allow the control plane to reach TCP port 8443; if the control plane cannot reach the pod network, run the replicas with hostNetwork',
    ],
  },
  {
    name: 'AKS',
    facts: { nodeLabels: ['kubernetes.azure.com/cluster'] },
    notes: [
      'detected Azure Kubernetes Service: the annotation admissions.enforcer/disabled prevents AKS from changing the namespace selectors',
    ],
  },
  {
    name: 'K3s',
    facts: { version: 'v1.33.5+k3s1' },
    notes: [
      'detected K3s or RKE2: the configuration of the server may set Pod Security defaults, which apply in addition',
    ],
  },
];

suite('what is installed in a cluster', () => {
  for (const { name, facts, wanted = {}, settings, notes = [], problem } of CASES) {
    test(name, () => {
      const cluster = { ...PLAIN, ...facts };
      const plan = planForCluster(cluster, { defaults, profile: undefined, requested: wanted });
      if (problem !== undefined) assert.deepEqual(plan, { problem });
      else {
        const seen = `Kubernetes ${cluster.version} at ${cluster.server}`;
        assert.deepEqual(plan, { settings: { ...defaults, ...settings }, notes: [seen, ...notes] });
      }
    });
  }
});

suite('what is installed where nobody looks', () => {
  const notesOf = (profile: string): readonly string[] => [
    `the profile ${profile}, for Kubernetes 1.30 or newer; no cluster was read`,
  ];
  const cases: readonly (readonly [InstallRequest['profile'], Partial<ManifestSettings>, Partial<ManifestSettings>])[] =
    [
      ['default', {}, {}],
      ['openshift', {}, { sccMode: 'off', rollout: 'Disabled' }],
      ['without-rollout', {}, { rollout: 'Disabled' }],
      ['high-availability', {}, { replicas: 5, spread: 'required' }],
      ['high-availability', { replicas: 4 }, { replicas: 4, spread: 'required' }],
      ['local', {}, { webhooks: { url: 'https://127.0.0.1:8443' } }],
    ];
  for (const [profile, wanted, settings] of cases) {
    test(`${profile ?? ''} ${JSON.stringify(wanted)}`, () => {
      const plan = planForProfile({ defaults, profile, requested: wanted });
      assert.deepEqual(plan, { settings: { ...defaults, ...settings }, notes: notesOf(profile ?? '') });
    });
  }
});
