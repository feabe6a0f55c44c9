import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outlookOn } from '../../../src/cli/commands/rollout-status.ts';
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
  unlabelled: [],
};
const COUNTS: NamespaceCounts = {
  namespaces: 3,
  clean: 3,
  violating: 0,
  inconclusive: 0,
  labelled: 0,
  exempt: 0,
  workloads: 0,
  pods: 0,
};
const VIOLATING = { violating: 1, workloads: 2, pods: 5 };

const FEATURE_OFF = 'the feature OpenShiftPodSecurityAdmission is off';
const REFUSED = '2 workloads in 1 namespace would be refused';
const LISTED = 'Do what is listed for each namespace.';
const CLEAR = `Clear the request: kubectl patch psaenforcementconfig cluster --type=merge -p '{"spec":{"enforcementMode":""}}'.`;
const TO_ENFORCE = 'Set rollout.phase to Enforce in the configuration file; replicas follow it.';

interface Case {
  readonly name: string;
  readonly state?: Partial<RolloutState>;
  readonly counts?: Partial<NamespaceCounts>;
  readonly blockers: readonly string[];
  readonly next: readonly string[];
}

const CASES: readonly Case[] = [
  {
    name: 'a mode that there is not',
    state: { requested: 'Privileged' },
    counts: VIOLATING,
    blockers: ['spec.enforcementMode is "Privileged", which nobody understands'],
    next: ['Make it one of "", "Restricted", "Legacy".'],
  },
  {
    name: 'disabled',
    state: { phase: 'Disabled' },
    blockers: ['the rollout is disabled: nothing is evaluated'],
    next: ['Set rollout.phase to Evaluate in the configuration file, and start the replicas anew.'],
  },
  {
    name: 'evaluated, and nothing in the way',
    state: { phase: 'Evaluate' },
    blockers: ['phase Evaluate enforces nothing'],
    next: [TO_ENFORCE],
  },
  {
    name: 'evaluated, violations, and Legacy as proposed; that the feature is off means nothing yet',
    state: { phase: 'Evaluate', requested: 'Legacy', requestedBy: 'rollout', gate: false },
    counts: VIOLATING,
    blockers: [
      REFUSED,
      'spec.enforcementMode asks for Legacy, as the program proposed',
      'phase Evaluate enforces nothing',
    ],
    next: [LISTED, CLEAR, TO_ENFORCE],
  },
  {
    name: 'what cannot be judged',
    counts: { inconclusive: 2 },
    blockers: ['2 namespaces cannot be judged'],
    next: ['See to the namespaces that cannot be judged.'],
  },
  {
    name: 'nothing decided yet',
    blockers: ['no evaluation of all namespaces has decided yet'],
    next: [
      'Have all namespaces evaluated: kubectl annotate psaenforcementconfig cluster --overwrite portcullis.dev/evaluate=$(date -u +%Y-%m-%dT%H:%M:%SZ).',
    ],
  },
  {
    name: 'Legacy by decision, though in order by now',
    state: { requested: '', decided: 'Legacy' },
    blockers: ['spec.enforcementMode asks for Legacy'],
    next: [CLEAR],
  },
  {
    name: 'Legacy, and the feature is off',
    state: { requested: 'Legacy', requestedBy: 'others', decided: 'Legacy', gate: false },
    blockers: ['spec.enforcementMode asks for Legacy', FEATURE_OFF],
    next: [CLEAR],
  },
  {
    name: 'decided, but the feature is off',
    state: { decided: 'Restricted', gate: false },
    blockers: [FEATURE_OFF],
    next: ['Switch the feature OpenShiftPodSecurityAdmission on.'],
  },
  {
    name: 'decided, and labels are missing',
    state: { decided: 'Restricted', unlabelled: ['b', 'a'] },
    blockers: ['2 namespaces without a label yet: a, b'],
    next: ['Wait for the labels; where they do not come, the events of the namespace say why.'],
  },
  {
    name: 'decided, and labels are there',
    state: { decided: 'Restricted' },
    blockers: ['the labels have to settle'],
    next: ['Wait: the default goes up once all labels have been there for 30s, and not twice within 5m.'],
  },
  {
    name: 'in force',
    state: { decided: 'Restricted', published: 'restricted', enforce: 'restricted' },
    blockers: [],
    next: [],
  },
  {
    name: 'in force by force',
    state: { requested: 'Restricted', decided: 'Restricted', published: 'restricted', enforce: 'restricted' },
    counts: VIOLATING,
    blockers: [],
    next: [LISTED],
  },
];

for (const { name, state, counts, ...expected } of CASES) {
  test(name, () => assert.deepEqual(outlookOn({ ...STATE, ...state }, { ...COUNTS, ...counts }), expected));
}
