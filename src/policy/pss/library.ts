/** Public API of the package export `./pss`. */
export type { BuildCel, CelInputs, CelRule } from './cel.ts';
export type { Repair } from '../pod/index.ts';
export type { Check, Exception, FieldExample, Finding, Revision, Rule } from './check.ts';
export { checks } from './checks/index.ts';
export {
  checkFix,
  checksAt,
  createEvaluator,
  decodeError,
  evaluatePod,
  newestVersion,
  type Evaluation,
  type EvaluateOptions,
  type Evaluator,
  type CheckRegistry,
  type SelectedCheck,
  type SelectOptions,
  type Selector,
  type Violation,
} from './evaluate.ts';
export { compareVersions, isLevel, LEVELS, parseVersion, type Level, type Policy, type Version } from './policy.ts';
