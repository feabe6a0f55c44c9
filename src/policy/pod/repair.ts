/** The type of repairs: how `check --fix` changes the fields of a pod that a rule does not allow. */

/** A repair of a rule, as data. The first repair of a rule that applies to an offending field is used. */
export type Repair = {
  /** The paths of the fields in the pod; by default all fields that the rule reports. The first group is the path to change. */
  readonly field?: RegExp;
  /** True: only fields that must be set and are not. */
  readonly missing?: true;
  /** The path to change, if it is not the offending one. */
  readonly path?: string;
  /** A condition that the manifest does not show, and that the user has to verify. */
  readonly note?: string;
  /** True: the note concerns the container, or the pod, that sets the field. Without it, the note concerns the whole object. */
  readonly explicit?: true;
} & RepairAction;

type RepairAction =
  | { readonly set: boolean | string }
  /** `values`: the offending items of a list of strings, and the field with its last item. */
  | { readonly remove: 'field' | 'values' }
  | { readonly append: string }
  /** The repair depends on the application. The choices are verb phrases. */
  | { readonly choices: readonly string[] };

/** The note of repairs that leave the user and the groups to an SCC. */
export const ANY_USER =
  'OpenShift sets the user and the groups: the image must work with any user ID; on clusters without SCCs, it runs as the USER of the image, and without the removed groups';

/** The choices for volumes of a type that is not allowed. */
export const VOLUME_CHOICES: readonly string[] = [
  'use a persistentVolumeClaim for data that must outlive the pod',
  'use an emptyDir for data of one pod',
  'use a configMap, secret, downwardAPI or projected volume for files of the cluster',
  'keep the volume, and enforce a less strict level in a namespace of its own',
];
