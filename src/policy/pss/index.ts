/** The public surface of the package's `./pss`. */
export { checks } from './checks/index.ts';
export { decodeError } from './decode.ts';
export {
  checksAt,
  createEvaluator,
  evaluatePod,
  newestVersion,
  type EvaluateOptions,
  type Evaluation,
  type Evaluator,
} from './evaluate.ts';
export type { SelectOptions, SelectedCheck, Selector } from './select.ts';
export {
  LEVELS,
  isLevel,
  type Check,
  type Finding,
  type Level,
  type Policy,
  type Revision,
  type Rule,
  type Version,
  type Violation,
} from './types.ts';
export { compareVersions, parseVersion } from './version.ts';
