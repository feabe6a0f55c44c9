import { parseDurationMs } from '../kube/duration.ts';
import type { Found } from '../kube/found.ts';
import { quote } from '../kube/quote.ts';
import { isObject } from '../kube/types.ts';
import { ENFORCEMENT_GATE } from '../policy/rollout/enforcement.ts';
import { ROLLOUT_PHASES } from '../policy/rollout/enforcement/types.ts';
import {
  DEFAULT_ROLLOUT,
  EVALUATORS,
  INCONCLUSIVE_POLICIES,
  type RolloutSettings,
} from '../policy/rollout/rollout-settings.ts';
import { childOf, strictIssues, typeIssues, userError, type ConfigNode, type Issue, type Struct } from './strict.ts';

const STRUCT: Struct = {
  type: 'RolloutConfiguration',
  fields: {
    phase: 'string',
    enforcementDate: 'string',
    evaluationInterval: 'string',
    maxEvaluationAge: 'string',
    recheckBeforeEnforce: 'boolean',
    inconclusivePolicy: 'string',
    raiseSettleSeconds: 'number',
    evaluator: 'string',
    clientQPS: 'number',
    clientBurst: 'number',
  },
};

/** The features that can be switched. */
const FEATURES: readonly string[] = [ENFORCEMENT_GATE];

/**
 * Reads how enforcement is rolled out; what is not said has its default.
 * @throws {UserError} that tells, line by line, what is wrong and where
 */
export function readRollout(rollout: ConfigNode, featureGates: ConfigNode): RolloutSettings {
  const types = typeIssues(rollout.value, STRUCT);
  if (types.length > 0) throw userError(rollout, '', types);
  const strict = strictIssues(rollout, STRUCT);
  if (strict.length > 0) throw userError(rollout, 'strict decoding error: ', strict);
  const issues: Issue[] = [];
  const at = <T>(name: string, read: (value: unknown) => Found<T>, fallback: T): T => {
    const { value } = childOf(rollout, [name]);
    if (value == null) return fallback;
    const found = read(value);
    if ('value' in found) return found.value;
    issues.push({ message: `rollout.${name}: Invalid value: ${JSON.stringify(value)}: ${found.error}`, path: [name] });
    return fallback;
  };
  const enforcementDate = at('enforcementDate', date, undefined);
  const settings: RolloutSettings = {
    phase: at('phase', oneOf(ROLLOUT_PHASES), DEFAULT_ROLLOUT.phase),
    ...(enforcementDate === undefined ? {} : { enforcementDate }),
    evaluationIntervalMs: at('evaluationInterval', duration, DEFAULT_ROLLOUT.evaluationIntervalMs),
    maxEvaluationAgeMs: at('maxEvaluationAge', duration, DEFAULT_ROLLOUT.maxEvaluationAgeMs),
    recheckBeforeEnforce: at(
      'recheckBeforeEnforce',
      (value) => ({ value: value === true }),
      DEFAULT_ROLLOUT.recheckBeforeEnforce,
    ),
    inconclusivePolicy: at('inconclusivePolicy', oneOf(INCONCLUSIVE_POLICIES), DEFAULT_ROLLOUT.inconclusivePolicy),
    raiseSettleMs: at('raiseSettleSeconds', seconds, DEFAULT_ROLLOUT.raiseSettleMs),
    evaluator: at('evaluator', oneOf(EVALUATORS), DEFAULT_ROLLOUT.evaluator),
    clientQps: at('clientQPS', positive, DEFAULT_ROLLOUT.clientQps),
    clientBurst: at('clientBurst', positive, DEFAULT_ROLLOUT.clientBurst),
    featureGates: readFeatureGates(featureGates),
  };
  if (settings.maxEvaluationAgeMs < settings.evaluationIntervalMs) {
    const detail =
      'must not be less than evaluationInterval: what was found would be too old before it is looked at again';
    issues.push({ message: `rollout.maxEvaluationAge: ${detail}`, path: ['maxEvaluationAge'] });
  }
  if (issues.length > 0) throw userError(rollout, 'invalid configuration: ', issues);
  return settings;
}

function readFeatureGates(node: ConfigNode): ReadonlyMap<string, boolean> {
  if (node.value == null) return new Map();
  if (!isObject(node.value)) throw userError(node, '', [{ message: 'must be an object of feature names', path: [] }]);
  const issues: Issue[] = [];
  const gates = new Map<string, boolean>();
  for (const [name, value] of Object.entries(node.value)) {
    if (!FEATURES.includes(name)) {
      issues.push({ message: `unknown feature ${quote(name)}; there is ${FEATURES.join(', ')}`, path: [name] });
    } else if (typeof value === 'boolean') gates.set(name, value);
    else issues.push({ message: 'must be true or false', path: [name] });
  }
  if (issues.length > 0) throw userError(node, '', issues);
  return gates;
}

function oneOf<T extends string>(words: readonly T[]): (value: unknown) => Found<T> {
  return (value) => {
    const word = words.find((one) => one === value);
    return word === undefined ? { error: `must be one of ${words.join(', ')}` } : { value: word };
  };
}

/** A day that there is: others end up on another day of the calendar. */
function date(value: unknown): Found<string | undefined> {
  const text = String(value);
  const ms = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN;
  const isDay = !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
  return isDay ? { value: text } : { error: 'must be a day such as 2027-01-31' };
}

const MIN_MS = 60_000;

function duration(value: unknown): Found<number> {
  const ms = parseDurationMs(String(value));
  const isLongEnough = ms !== undefined && ms >= MIN_MS;
  return isLongEnough ? { value: ms } : { error: 'must be a duration of at least 1m, such as 4h or 1h30m' };
}

const MAX_SETTLE_S = 3600;

function seconds(value: unknown): Found<number> {
  const isWithin = typeof value === 'number' && value >= 0 && value <= MAX_SETTLE_S;
  return isWithin ? { value: value * 1000 } : { error: `must be a number from 0 to ${MAX_SETTLE_S}` };
}

function positive(value: unknown): Found<number> {
  return typeof value === 'number' && value > 0 ? { value } : { error: 'must be greater than 0' };
}
