import { UserError } from '../../config/files.ts';
import type { Controller } from '../../controllers/controller.ts';
import { CONTROLLER_NAMES, createControllers } from '../../controllers/index.ts';
import { STANDARD_SCC_CONTROLLER } from '../../controllers/standard-sccs.ts';
import { quote } from '../../kube/text.ts';
import { rangesProblem, type RangeSettings } from '../../policy/uid-range/settings.ts';
import type { ServeValues } from './options.ts';

/** One word of `--controllers`: a known name, perhaps after a minus, or `*`. */
export function controllerRule(value: string): string {
  if (value === '*' || CONTROLLER_NAMES.includes(value.replace(/^-/, ''))) return value;
  throw new UserError(`${quote(value)} is not in the list of known controllers: ${CONTROLLER_NAMES.join(', ')}`);
}

type ControllerValues = Pick<
  ServeValues,
  'controllers' | 'mcs-labels-per-block' | 'mcs-range' | 'scc-mode' | 'standard-sccs' | 'uid-range'
>;

/** The controllers that the options ask for. Throws a UserError if ranges do not go together. */
export function controllersOf(values: ControllerValues): readonly Controller[] {
  const ranges: RangeSettings = {
    uidRange: values['uid-range'],
    mcsRange: values['mcs-range'],
    labelsPerBlock: values['mcs-labels-per-block'],
  };
  const problem = rangesProblem(ranges);
  if (problem !== undefined) throw new UserError(`--uid-range, --mcs-range, --mcs-labels-per-block: ${problem}`);
  if (values['scc-mode'] === 'off') return [];
  return createControllers({ ranges }).filter(
    ({ name }) =>
      isEnabled(name, values.controllers) &&
      (name !== STANDARD_SCC_CONTROLLER || values['standard-sccs'] === 'install'),
  );
}

/**
 * True if the words of `--controllers` ask for it: the first that names it counts, else the asterisk.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/controller-manager/app/helper.go
 */
export function isEnabled(name: string, rules: readonly string[]): boolean {
  const rule = rules.find((one) => one === name || one === `-${name}`);
  return rule === undefined ? rules.includes('*') : rule === name;
}
