import { createFieldSet, fieldPath } from '../typed/field-set.ts';

/** Fields that nobody owns: they are the server's, or say which object this is. */
export const NEVER_OWNED = createFieldSet(
  [
    ['apiVersion'],
    ['kind'],
    ['metadata'],
    ['metadata', 'name'],
    ['metadata', 'namespace'],
    ['metadata', 'creationTimestamp'],
    ['metadata', 'selfLink'],
    ['metadata', 'uid'],
    ['metadata', 'clusterName'],
    ['metadata', 'generation'],
    ['metadata', 'managedFields'],
    ['metadata', 'resourceVersion'],
  ].map(fieldPath),
);
