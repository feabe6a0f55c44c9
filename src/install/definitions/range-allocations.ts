import { clusterMetadata } from '../metadata.ts';
import { text, TYPE_META, type Definition } from './schema.ts';

const GROUP = 'security.internal.openshift.io';

/**
 * Which blocks of user ids namespaces have taken. There is one object, `scc-uid`, written by the controllers alone: it
 * is what keeps two namespaces from getting the same ids.
 */
export const rangeAllocations: Definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: clusterMetadata(`rangeallocations.${GROUP}`),
  spec: {
    group: GROUP,
    scope: 'Cluster',
    names: {
      kind: 'RangeAllocation',
      listKind: 'RangeAllocationList',
      plural: 'rangeallocations',
      singular: 'rangeallocation',
    },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            description: 'RangeAllocation says which blocks of a range of user ids are taken. It is no API for users.',
            properties: {
              ...TYPE_META,
              range: {
                ...text('The range and the size of its blocks, as 1000000000-1999999999/10000.'),
                maxLength: 253,
              },
              data: {
                ...text(
                  'In base64 a big-endian number: a bit that is set is a block that is taken, the lowest one the first. Empty: none is.',
                ),
                nullable: true,
                // To API servers an empty text is no base64.
                anyOf: [{ format: 'byte' }, { maxLength: 0 }],
              },
            },
          },
        },
      },
    ],
  },
};
