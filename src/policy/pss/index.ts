/**
 * Evaluates pods against the Pod Security Standards, supports exceptions and fixes, and generates CEL expressions from
 * the checks.
 */
export {
  buildCelChecks,
  buildSecondVerdict,
  type CelScope,
  type CelVariable,
  INPUT_VARIABLES,
  latestMinor,
  minorVersion,
  passesEveryVersion,
} from './cel-policy.ts';
export type { CelInputs } from './cel.ts';
export type { Check, FieldExample } from './check.ts';
export { checks } from './checks/index.ts';
export {
  checksAt,
  checkFix,
  checkRepairs,
  createEvaluator,
  decodeError,
  evaluatedAs,
  evaluateDecoded,
  evaluatePod,
  type Evaluation,
  isBaselineCheck,
  latestVersion,
  newestVersion,
  type SelectOptions,
} from './evaluate.ts';
export {
  CHECKS_WITHOUT_VALUES,
  coversBaseline,
  evaluateExcepted,
  type ExceptedEvaluation,
  type ExceptionIndex,
  type ExceptionRule,
  findUnusable,
  indexExceptions,
  isSameControl,
  NO_EXCEPTIONS,
  splitEntries,
  suggestEntries,
  unexpired,
} from './exceptions.ts';
export {
  compareVersions,
  isLevel,
  type Level,
  LEVELS,
  parseVersion,
  type Policy,
  PRIVILEGED,
  type Version,
} from './policy.ts';
export { checkControls, type Control, listControls, type Standard, STANDARDS } from './standards.ts';
