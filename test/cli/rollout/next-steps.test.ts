import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rolloutOutlook } from '../../../src/cli/commands/rollout-status.ts';
import type { NamespaceCounts, RolloutState } from '../../../src/cli/rollout/gather.ts';

const STATE: RolloutState = {
  phase: 'Enforce',
  gate: true,
  requested: '',
  decided: '',
  enforce: 'privileged',
  published: 'privileged',
  generation: 1,
  syncer: 'Advise',
  raiseSettleMs: 30_000,
  conditions: [],
  unlabeled: [],
};
const COUNTS: NamespaceCounts = {
  namespaces: 3,
  clean: 3,
  violating: 0,
  inconclusive: 0,
  labeled: 0,
  exempt: 0,
  workloads: 0,
  pods: 0,
};
const VIOLATING = { violating: 1, workloads: 2, pods: 5 };

const FEATURE_OFF = 'the feature OpenShiftPodSecurityAdmission is off';
const REFUSED = '2 workloads in 1 namespace would be refused';
const LISTED = 'Follow the next steps of each namespace.';
const CLEAR = `Clear the request: kubectl patch psaenforcementconfig cluster --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const TO_ENFORCE = 'Set rollout.phase to Enforce in the configuration file; replicas reload it.';

interface Case {
  readonly name: string;
  readonly state?: Partial<RolloutState>;
  readonly counts?: Partial<NamespaceCounts>;
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

const CASES: readonly Case[] = [
  {
    name: 'invalid mode',
    state: { requested: 'Privileged' },
    counts: VIOLATING,
    blockers: ['spec.enforcementMode is "Privileged", which is invalid'],
    next: ['Set it to one of "", "Restricted", "Legacy".'],
  },
  {
    name: 'disabled',
    state: { phase: 'Disabled' },
    blockers: ['the rollout is disabled: nothing is evaluated'],
    next: ['Set rollout.phase to Evaluate in the configuration file, and restart the replicas.'],
  },
  {
    name: 'evaluated, without blockers',
    state: { phase: 'Evaluate' },
    blockers: ['phase Evaluate enforces nothing'],
    next: [TO_ENFORCE],
  },
  {
    name: 'evaluated, violations, Legacy as proposed, feature off',
    state: { phase: 'Evaluate', requested: 'Legacy', requestedBy: 'rollout', gate: false },
    counts: VIOLATING,
    blockers: [
      REFUSED,
      'spec.enforcementMode requests Legacy, as proposed by Portcullis',
      'phase Evaluate enforces nothing',
    ],
    next: [LISTED, CLEAR, TO_ENFORCE],
  },
  {
    name: 'inconclusive',
    counts: { inconclusive: 2 },
    blockers: ['2 namespaces cannot be evaluated'],
    next: ['Resolve the errors of the namespaces that cannot be evaluated.'],
  },
  {
    name: 'not decided',
    blockers: ['no complete evaluation of all namespaces exists'],
    next: [
      'Evaluate all namespaces: kubectl annotate psaenforcementconfig cluster --overwrite portcullis.dev/evaluate=$(date -u +%Y-%m-%dT%H:%M:%SZ).',
    ],
  },
  {
    name: 'Legacy by decision, without violations',
    state: { requested: '', decided: 'Legacy' },
    blockers: ['spec.enforcementMode requests Legacy'],
    next: [CLEAR],
  },
  {
    name: 'Legacy, and the feature is off',
    state: { requested: 'Legacy', requestedBy: 'others', decided: 'Legacy', gate: false },
    blockers: ['spec.enforcementMode requests Legacy', FEATURE_OFF],
    next: [CLEAR],
  },
  {
    name: 'decided, but the feature is off',
    state: { decided: 'Restricted', gate: false },
    blockers: [FEATURE_OFF],
    next: ['Enable the feature OpenShiftPodSecurityAdmission.'],
  },
  {
    name: 'decided, missing labels',
    state: { decided: 'Restricted', unlabeled: ['b', 'a'] },
    blockers: ['2 namespaces without a label: a, b'],
    next: ['Wait for the labels. Events of the namespaces report errors.'],
  },
  {
    name: 'decided, complete labels',
    state: { decided: 'Restricted' },
    blockers: ['the labels are new'],
    next: ['Wait: the default becomes restricted after all labels have existed for 30s, at most once within 5m.'],
  },
  {
    name: 'in effect',
    state: { decided: 'Restricted', published: 'restricted', enforce: 'restricted' },
    blockers: [],
    next: [],
  },
  {
    name: 'in effect on request',
    state: { requested: 'Restricted', decided: 'Restricted', published: 'restricted', enforce: 'restricted' },
    counts: VIOLATING,
    blockers: [],
    next: [LISTED],
  },
];

for (const { name, state, counts, ...expected } of CASES) {
  test(name, () => assert.deepEqual(rolloutOutlook({ ...STATE, ...state }, { ...COUNTS, ...counts }), expected));
}
