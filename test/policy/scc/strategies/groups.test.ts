import { checkStrategies } from './check.ts';

const RANGES = [
  { min: 10, max: 19 },
  { min: 30, max: 30 },
];
const FS_GROUP = { fsGroup: { type: 'MustRunAs', ranges: RANGES } };
const SUPPLEMENTAL = { supplementalGroups: { type: 'MustRunAs', ranges: RANGES } };
const LONG = Array.from({ length: 101 }, (_, index) => index + 100);

checkStrategies([
  { name: 'the first fsGroup', scc: FS_GROUP, expected: { pod: { fsGroup: 10 } } },
  { name: 'an fsGroup of the second range', scc: FS_GROUP, pod: { fsGroup: 30 }, expected: {} },
  {
    name: 'an fsGroup between the ranges',
    scc: FS_GROUP,
    pod: { fsGroup: 20 },
    expected: {
      errors: ['provider some: .spec.securityContext.fsGroup: Invalid value: [20]: 20 is not an allowed group'],
    },
  },
  { name: 'the first supplemental group', scc: SUPPLEMENTAL, expected: { pod: { supplementalGroups: [10] } } },
  {
    name: 'an empty list is none',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: [] },
    expected: { pod: { supplementalGroups: [10] } },
  },
  {
    name: 'each wrong group is told with all of them',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: [10, 1, 2] },
    expected: {
      errors: [
        'provider some: .spec.securityContext.supplementalGroups: Invalid value: [10,1,2]: 1 is not an allowed group',
        'provider some: .spec.securityContext.supplementalGroups: Invalid value: [10,1,2]: 2 is not an allowed group',
      ],
    },
  },
  {
    name: 'of a long list only the first wrong group is told',
    scc: SUPPLEMENTAL,
    pod: { supplementalGroups: LONG },
    expected: {
      errors: [
        `provider some: .spec.securityContext.supplementalGroups: Invalid value: ${JSON.stringify(LONG)}: 100 is not an allowed group`,
      ],
    },
  },
  { name: 'any group', scc: {}, pod: { fsGroup: 0, supplementalGroups: [0] }, expected: {} },
]);
