import { labelKeyErrors } from '../../kube/names.ts';
import { invalidValue } from '../../kube/field-error.ts';
import type { ApiObject } from '../types.ts';
import { LABEL } from './metadata.ts';
import { objectAt, textAt, textsAt } from './read.ts';
import type { KindRules } from './strategy.ts';

const FINALIZER = 'kubernetes';

/**
 * Namespaces. A namespace bears its own name as a label, and a finalizer that holds it until it is empty.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/registry/core/namespace/strategy.go
 */
export const namespaceRules: KindRules = {
  namespaced: false,
  nameErrors: LABEL,
  initialStatus: () => ({ phase: 'Active' }),
  prepareForCreate(namespace) {
    nameLabel(namespace);
    const finalizers = textsAt(objectAt(namespace, 'spec'), 'finalizers');
    namespace['spec'] = { finalizers: finalizers.includes(FINALIZER) ? finalizers : [...finalizers, FINALIZER] };
  },
  prepareForUpdate(namespace, old, subresource) {
    nameLabel(namespace);
    if (subresource !== 'finalize') namespace['spec'] = structuredClone(objectAt(old, 'spec'));
  },
  validate: (namespace) =>
    textsAt(objectAt(namespace, 'spec'), 'finalizers').flatMap((name) => [
      ...labelKeyErrors(name).map((error) => invalidValue('spec.finalizers', name, error)),
      ...(name.includes('/') || name === FINALIZER
        ? []
        : [
            invalidValue(
              'spec.finalizers',
              name,
              'name is neither a standard finalizer name nor is it fully qualified',
            ),
          ]),
    ]),
};

/** A generated name is not known yet when defaults are filled in. */
function nameLabel(namespace: ApiObject): void {
  namespace.metadata ??= {};
  const name = textAt(namespace.metadata, 'name');
  if (name === '') return;
  namespace.metadata['labels'] = { ...objectAt(namespace.metadata, 'labels'), 'kubernetes.io/metadata.name': name };
}
