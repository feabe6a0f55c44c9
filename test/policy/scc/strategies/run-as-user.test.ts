import { checkStrategies } from './check.ts';

const RANGE = { runAsUser: { type: 'MustRunAsRange', uidRangeMin: 1000, uidRangeMax: 1999 } };
const NON_ROOT = { runAsUser: { type: 'MustRunAsNonRoot' } };
const ROOT = { runAsUser: { type: 'MustRunAs', uid: 0 } };

checkStrategies([
  { name: 'the lowest id of the range', scc: RANGE, expected: { container: { runAsUser: 1000, runAsNonRoot: true } } },
  {
    name: 'the user of the pod is taken over',
    scc: RANGE,
    pod: { runAsUser: 1500 },
    expected: { container: { runAsNonRoot: true } },
  },
  {
    name: 'the user of the container goes before a wrong one of the pod',
    scc: RANGE,
    pod: { runAsUser: 0 },
    container: { runAsUser: 1999 },
    expected: { container: { runAsUser: 1999, runAsNonRoot: true } },
  },
  {
    name: 'a user above the range',
    scc: RANGE,
    container: { runAsUser: 2000 },
    expected: {
      errors: ['provider some: .containers[0].runAsUser: Invalid value: 2000: must be in the ranges: [1000, 1999]'],
    },
  },
  {
    name: 'an id fits no empty range, not even its own first',
    scc: { runAsUser: { type: 'MustRunAsRange', uidRangeMin: 5, uidRangeMax: 4 } },
    expected: { errors: ['provider some: .containers[0].runAsUser: Invalid value: 5: must be in the ranges: [5, 4]'] },
  },
  { name: 'root is not marked as another', scc: ROOT, expected: { container: { runAsUser: 0 } } },
  {
    name: 'a user other than the one',
    scc: ROOT,
    pod: { runAsUser: 7 },
    expected: { errors: ['provider some: .containers[0].runAsUser: Invalid value: 7: must be: 0'] },
  },
  { name: 'not root, whoever the image names', scc: NON_ROOT, expected: { container: { runAsNonRoot: true } } },
  {
    name: 'not root, but root is asked for',
    scc: NON_ROOT,
    container: { runAsUser: 0 },
    expected: {
      errors: ['provider some: .containers[0].runAsUser: Invalid value: 0: running with the root UID is forbidden'],
    },
  },
  {
    name: 'root may not be left open',
    scc: NON_ROOT,
    pod: { runAsNonRoot: false },
    container: { runAsUser: 1000 },
    expected: { errors: ['provider some: .containers[0].runAsNonRoot: Invalid value: false: must be true'] },
  },
  {
    name: 'any user is marked if it is not root',
    scc: {},
    container: { runAsUser: 1000 },
    expected: { container: { runAsUser: 1000, runAsNonRoot: true } },
  },
  { name: 'any user: nobody is nobody', scc: {}, expected: {} },
]);
