import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { findSccProblems, formatSccProblems } from '../../../src/policy/scc/advice/scc-warnings.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import type { Compatibility } from '../../../src/policy/scc/mode.ts';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import { laxScc } from '../../support/scc.ts';

const STANDARD = STANDARD_SCCS.map(({ scc }) => scc);

suite('what decisions do without', () => {
  const cases: readonly {
    readonly name: string;
    readonly sccs: readonly SecurityContextConstraints[];
    readonly compatibility?: Compatibility;
    readonly expected: string | undefined;
  }[] = [
    { name: 'nothing', sccs: STANDARD, expected: undefined },
    {
      name: 'one standard SCC',
      sccs: STANDARD.filter(({ metadata }) => metadata?.name !== 'nonroot'),
      expected: 'standard SCC nonroot is missing',
    },
    {
      name: 'standard SCCs that older platforms do not have',
      sccs: STANDARD.filter(({ metadata }) => !['restricted-v3', 'nested-container'].includes(metadata?.name ?? '')),
      expected: undefined,
    },
    {
      name: 'SCCs that are required',
      sccs: STANDARD.filter(({ metadata }) => metadata?.name !== 'nonroot'),
      compatibility: { requiredSccs: ['nosuch', 'privileged', 'neither'] },
      expected: 'no pod is admitted because required SCCs nosuch, neither are missing; standard SCC nonroot is missing',
    },
    {
      name: 'a standard SCC where OpenShift requires it',
      sccs: STANDARD.filter(({ metadata }) => metadata?.name !== 'nonroot'),
      compatibility: 'openshift',
      expected: 'no pod is admitted because required SCC nonroot is missing',
    },
    {
      name: 'no SCC at all',
      sccs: [],
      expected:
        'standard SCCs anyuid, hostaccess, hostmount-anyuid, hostnetwork, hostnetwork-v2, nonroot, nonroot-v2, privileged, restricted, restricted-v2 are missing',
    },
    {
      name: 'broken ones, by name',
      sccs: [
        ...STANDARD,
        laxScc({ name: 'z', runAsUser: { type: 'MustRunAs' } }),
        laxScc({ name: 'half', runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1 } }),
        laxScc({ name: 'typo', fsGroup: { type: 'MustRunAsRange' } }),
      ],
      expected:
        'SCC half is invalid (MustRunAsRange requires a UIDRangeMax); SCC typo is invalid (Unrecognized FSGroup strategy type MustRunAsRange); SCC z is invalid (MustRunAs requires a UID)',
    },
    {
      name: 'a field of a wrong type',
      sccs: [...STANDARD, laxScc({ name: 'wrong', priority: 'high' })],
      expected: 'SCC wrong is invalid (priority: Invalid value: "high": must be an integer)',
    },
  ];
  for (const { name, sccs, compatibility, expected } of cases) {
    test(name, () => {
      assert.equal(formatSccProblems(findSccProblems(sccs, compatibility)), expected);
    });
  }
});
