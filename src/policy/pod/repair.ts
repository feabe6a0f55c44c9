/** Repairs describe how `check --fix` changes the pod fields that violate a rule. */

/** Declarative repair for a rule. `check --fix` applies the rule's first repair that matches an offending field. */
export type Repair = {
  /**
   * Matches the field paths that the repair applies to. By default, the repair applies to all fields that the rule
   * reports. The first group is the path to change.
   */
  readonly field?: RegExp;
  /** If true, the repair applies only to required fields that are not set. */
  readonly missing?: true;
  /** The path to change, if it differs from the offending path. */
  readonly path?: string;
  /** A condition that the manifest does not show, so the user must verify it. */
  readonly note?: string;
  /**
   * If true, the note applies to the container or pod that sets the field. Otherwise, it applies to the whole object.
   */
  readonly explicit?: true;
} & RepairAction;

type RepairAction =
  | { readonly set: boolean | string }
  /**
   * Removes the field. With `values`, removes the offending items from a list of strings, and removes the field once
   * the list is empty.
   */
  | { readonly remove: 'field' | 'values' }
  | { readonly append: string }
  /** The correct repair depends on the application. The choices are verb phrases. */
  | { readonly choices: readonly string[] };

/** Note for repairs that let an SCC set the user and groups. */
export const ANY_USER =
  'OpenShift sets the user and groups, so the image must work with any user ID. On clusters without SCCs, it runs as the USER of the image and without the removed groups';

/** Suggestions for volumes whose type is not allowed. */
export const VOLUME_CHOICES: readonly string[] = [
  'use a persistentVolumeClaim for data that must outlive the pod',
  'use an emptyDir for the data of a single pod',
  'use a configMap, secret, downwardAPI or projected volume for files from the cluster',
  'keep the volume, and move the pod to a separate namespace that enforces a less strict level',
];
