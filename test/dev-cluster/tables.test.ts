import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { humanDuration, selectorText, since } from '../../src/dev-cluster/tables/cells.ts';
import { columnsOf } from '../../src/dev-cluster/tables/index.ts';
import type { ApiObject } from '../../src/dev-cluster/types.ts';

const NOW = new Date('2026-01-02T00:00:00Z');
const CREATED = '2026-01-01T23:59:00Z';

function row(kind: string, object: object): unknown[] {
  const whole: ApiObject = { metadata: { name: 'n', creationTimestamp: CREATED }, ...object };
  return columnsOf(kind).map((column) => column.cell(whole, NOW));
}

describe('durations', () => {
  const MINUTE = 60;
  const HOUR = 3600;
  const DAY = 24 * HOUR;
  const YEAR = 365 * DAY;
  const cases: readonly [seconds: number, text: string][] = [
    [-5, '<invalid>'],
    [-1, '0s'],
    [0, '0s'],
    [119.9, '119s'],
    [2 * MINUTE, '2m'],
    [2 * MINUTE + 1, '2m1s'],
    [10 * MINUTE + 5, '10m'],
    [3 * HOUR, '3h'],
    [3 * HOUR + 10 * MINUTE, '3h10m'],
    [8 * HOUR + 10 * MINUTE, '8h'],
    [2 * DAY, '2d'],
    [2 * DAY + HOUR, '2d1h'],
    [8 * DAY + HOUR, '8d'],
    [2 * YEAR, '2y'],
    [2 * YEAR + DAY, '2y1d'],
    [9 * YEAR + DAY, '9y'],
  ];
  for (const [seconds, text] of cases) {
    test(`${seconds} s are ${text}`, () => assert.equal(humanDuration(seconds), text));
  }
  test('no time is unknown', () => {
    assert.equal(since(undefined, NOW), '<unknown>');
    assert.equal(since('soon', NOW), '<unknown>');
  });
});

describe('rows of kubectl get', () => {
  const spec = {
    containers: [
      { name: 'a', image: 'x' },
      { name: 'b', image: 'y' },
    ],
  };
  const none = ['<none>', '<none>', '<none>', '<none>'];
  const running = { name: 'a', ready: true, restartCount: 0, state: { running: {} } };
  const cases: readonly [what: string, kind: string, object: object, cells: unknown[]][] = [
    ['a pod that waits', 'Pod', { spec, status: { phase: 'Pending' } }, ['n', '0/2', 'Pending', '0', '60s', ...none]],
    [
      'a pod that runs',
      'Pod',
      {
        spec: { ...spec, nodeName: 'w1', readinessGates: [{ conditionType: 'g' }] },
        status: {
          phase: 'Running',
          podIPs: [{ ip: '10.0.0.1' }],
          conditions: [{ type: 'g', status: 'True' }],
          containerStatuses: [
            running,
            {
              name: 'b',
              restartCount: 3,
              state: { waiting: { reason: 'CrashLoopBackOff' } },
              lastState: { terminated: { finishedAt: CREATED } },
            },
          ],
        },
      },
      ['n', '1/2', 'CrashLoopBackOff', '3 (60s ago)', '60s', '10.0.0.1', 'w1', '<none>', '1/1'],
    ],
    [
      'a pod that failed',
      'Pod',
      { spec, status: { phase: 'Failed', containerStatuses: [{ state: { terminated: { exitCode: 3 } } }] } },
      ['n', '0/2', 'ExitCode:3', '0', '60s', ...none],
    ],
    [
      'a pod that is held back',
      'Pod',
      { spec, status: { phase: 'Pending', conditions: [{ type: 'PodScheduled', reason: 'SchedulingGated' }] } },
      ['n', '0/2', 'SchedulingGated', '0', '60s', ...none],
    ],
    [
      'a pod that goes',
      'Pod',
      {
        metadata: { name: 'n', creationTimestamp: CREATED, deletionTimestamp: CREATED },
        spec,
        status: { phase: 'Running' },
      },
      ['n', '0/2', 'Terminating', '0', '60s', ...none],
    ],
    [
      'a deployment',
      'Deployment',
      {
        spec: { replicas: 3, template: { spec }, selector: { matchLabels: { b: '2', a: '1' } } },
        status: { readyReplicas: 1 },
      },
      ['n', '1/3', 0, 0, '60s', 'a,b', 'x,y', 'a=1,b=2'],
    ],
    [
      'a job',
      'Job',
      {
        spec: { completions: 2, template: { spec } },
        status: {
          succeeded: 2,
          startTime: CREATED,
          completionTime: '2026-01-01T23:59:30Z',
          conditions: [{ type: 'Complete', status: 'True' }],
        },
      },
      ['n', 'Complete', '2/2', '30s', '60s', 'a,b', 'x,y', '<none>'],
    ],
    [
      'a cron job',
      'CronJob',
      { spec: { schedule: '* * * * *', suspend: true } },
      ['n', '* * * * *', '<none>', 'True', 0, '<none>', '60s', '', '', '<none>'],
    ],
    [
      'a service',
      'Service',
      {
        spec: {
          type: 'NodePort',
          clusterIPs: ['10.0.0.2'],
          ports: [{ port: 80, nodePort: 30_080, protocol: 'TCP' }],
          selector: { app: 'x' },
        },
      },
      ['n', 'NodePort', '10.0.0.2', '<none>', '80:30080/TCP', '60s', 'app=x'],
    ],
    [
      'a role binding',
      'RoleBinding',
      {
        roleRef: { kind: 'Role', name: 'r' },
        subjects: [
          { kind: 'User', name: 'u' },
          { kind: 'Group', name: 'g' },
          { kind: 'ServiceAccount', name: 's', namespace: 'x' },
        ],
      },
      ['n', 'Role/r', '60s', 'u', 'g', 'x/s'],
    ],
    [
      'an event of the new kind',
      'Event',
      {
        type: 'Warning',
        reason: 'R',
        message: ' said ',
        eventTime: CREATED,
        involvedObject: { kind: 'Pod', name: 'p' },
        reportingComponent: 'c',
      },
      ['60s', 'Warning', 'R', 'pod/p', '', 'c', 'said', '60s', 1, 'n'],
    ],
    [
      'a node',
      'Node',
      {
        metadata: { name: 'n', creationTimestamp: CREATED, labels: { 'node-role.kubernetes.io/worker': '' } },
        spec: { unschedulable: true },
        status: {
          conditions: [{ type: 'Ready', status: 'True' }],
          nodeInfo: { kubeletVersion: 'v1.36.0' },
          addresses: [{ type: 'InternalIP', address: '10.0.0.3' }],
        },
      },
      [
        'n',
        'Ready,SchedulingDisabled',
        'worker',
        '60s',
        'v1.36.0',
        '10.0.0.3',
        '<none>',
        '<unknown>',
        '<unknown>',
        '<unknown>',
      ],
    ],
    ['a kind without columns of its own', 'LimitRange', {}, ['n', CREATED]],
    ['a kind that is called like a member of all objects', 'constructor', {}, ['n', CREATED]],
  ];
  for (const [what, kind, object, cells] of cases) {
    test(what, () => assert.deepEqual(row(kind, object), cells));
  }

  test('objects of any form have a row', () => {
    for (const kind of [
      'Pod',
      'Deployment',
      'Job',
      'CronJob',
      'Service',
      'Event',
      'Node',
      'Endpoints',
      'ResourceQuota',
    ]) {
      for (const odd of [null, 1, 'x', [], [null], { a: 1 }]) {
        assert.doesNotThrow(() =>
          row(kind, { metadata: odd, spec: odd, status: odd, data: odd, subsets: odd, involvedObject: odd }),
        );
      }
    }
  });
});

test('selectors are printed as the API server does', () => {
  const matchExpressions = [
    { key: 'b', operator: 'In', values: ['y', 'x'] },
    { key: 'c', operator: 'NotIn', values: ['z'] },
    { key: 'd', operator: 'Exists' },
    { key: 'e', operator: 'DoesNotExist' },
  ];
  assert.equal(selectorText({ matchLabels: { a: '1' }, matchExpressions }), 'a=1,b in (x,y),c notin (z),d,!e');
  assert.equal(selectorText(undefined), '<none>');
});
