import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { age, kindColumns, formatDuration } from '../../src/dev-cluster/tables.ts';

const NOW = new Date('2026-01-02T00:00:00Z');
const CREATED = '2026-01-01T23:59:00Z';

describe('durations', () => {
  const [MINUTE, HOUR, DAY, YEAR] = [60, 3600, 86_400, 365 * 86_400] as const;
  const cases: readonly (readonly [seconds: number, text: string])[] = [
    [-1, '0s'],
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
    [2 * YEAR + DAY, '2y1d'],
    [9 * YEAR + DAY, '9y'],
  ];
  for (const [seconds, text] of cases) test(text, () => assert.equal(formatDuration(seconds), text));
  test('without a valid time', () => assert.equal(age('soon', NOW), '<unknown>'));
});

describe('the row of', () => {
  const containers = [
    { name: 'a', image: 'x' },
    { name: 'b', image: 'y' },
  ];
  const spec = { containers };
  const metadata = { name: 'n', creationTimestamp: CREATED };
  const cases: readonly (readonly [name: string, kind: string, object: object, cells: unknown[]])[] = [
    [
      'a pending pod',
      'Pod',
      { spec, status: { phase: 'Pending' } },
      ['n', '0/2', 'Pending', '0', '60s', '<none>', '<none>'],
    ],
    [
      'a pod with a waiting container',
      'Pod',
      {
        spec: { ...spec, nodeName: 'w1' },
        status: {
          phase: 'Running',
          podIP: '10.0.0.1',
          containerStatuses: [
            { ready: true, restartCount: 0, state: { running: {} } },
            { restartCount: 3, state: { waiting: { reason: 'CrashLoopBackOff' } } },
          ],
        },
      },
      ['n', '1/2', 'CrashLoopBackOff', '3', '60s', '10.0.0.1', 'w1'],
    ],
    [
      'a pod that is being deleted',
      'Pod',
      { metadata: { ...metadata, deletionTimestamp: CREATED }, spec, status: { phase: 'Running' } },
      ['n', '0/2', 'Terminating', '0', '60s', '<none>', '<none>'],
    ],
    [
      'a deployment',
      'Deployment',
      {
        spec: { replicas: 3, template: { spec } },
        status: { readyReplicas: 1 },
      },
      ['n', '1/3', 0, 0, '60s', 'a,b', 'x,y'],
    ],
    [
      'a job',
      'Job',
      {
        spec: { completions: 2, template: { spec } },
        status: { succeeded: 2, conditions: [{ type: 'Complete', status: 'True' }] },
      },
      ['n', 'Complete', '2/2', '60s', 'a,b', 'x,y'],
    ],
    [
      'a cron job',
      'CronJob',
      { spec: { schedule: '* * * * *', suspend: true } },
      ['n', '* * * * *', 'True', 0, '60s', '', ''],
    ],
    [
      'a service',
      'Service',
      {
        spec: {
          type: 'NodePort',
          clusterIPs: ['10.0.0.2'],
          ports: [{ port: 80, nodePort: 30_080, protocol: 'TCP' }],
        },
      },
      ['n', 'NodePort', '10.0.0.2', '<none>', '80:30080/TCP', '60s'],
    ],
    [
      'a role binding',
      'RoleBinding',
      {
        roleRef: { kind: 'Role', name: 'r' },
        subjects: [
          { kind: 'User', name: 'u' },
          { kind: 'ServiceAccount', name: 's', namespace: 'x' },
        ],
      },
      ['n', 'Role/r', '60s', 'u', '', 'x/s'],
    ],
    [
      'an event',
      'Event',
      {
        type: 'Warning',
        reason: 'R',
        message: ' text ',
        eventTime: CREATED,
        involvedObject: { kind: 'Pod', name: 'p' },
        reportingComponent: 'c',
      },
      ['60s', 'Warning', 'R', 'pod/p', 'c', 'text', 'n'],
    ],
    ['a kind with the default columns', 'LimitRange', {}, ['n', '60s']],
  ];
  for (const [name, kind, object, cells] of cases) {
    test(name, () => {
      const row = kindColumns(kind).map((column) => column.cell({ metadata, ...object }, NOW));
      assert.deepEqual(row, cells);
    });
  }
});
