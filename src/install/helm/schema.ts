import { ENFORCEMENT_MODES } from '../../kube/psa-enforcement-config.ts';
import { ROLLOUT_PHASES } from '../../policy/rollout/enforcement.ts';
import { EVALUATORS } from '../../policy/rollout/rollout-settings.ts';
import { valuesOf, VALUE_COMMENTS } from './values.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Objects and lists of Kubernetes, which know best themselves what they may hold. */
const OPEN: ReadonlySet<string> = new Set([
  'affinity',
  'annotations',
  'configuration',
  'labels',
  'nodeSelector',
  'podAnnotations',
  'podLabels',
  'podSecurityContext',
  'resources',
  'rollout',
  'securityContext',
]);

/** What a value may be beyond what its default shows. */
const NARROWER: Readonly<Record<string, Schema>> = {
  replicaCount: { minimum: 1 },
  pullPolicy: { enum: ['Always', 'IfNotPresent', 'Never'] },
  mode: { enum: ['enforce', 'report', 'off'] },
  authorization: { enum: ['rbac', 'sar'] },
  failurePolicy: { enum: ['Fail', 'Ignore'] },
  rollout: {
    required: ['phase'],
    properties: { phase: { enum: [...ROLLOUT_PHASES] }, evaluator: { enum: [...EVALUATORS] } },
  },
  runbookUrl: { pattern: '^https?://[^#\\s]+$' },
  enforcementMode: { enum: [...ENFORCEMENT_MODES] },
  digest: { pattern: '^(sha256:[0-9a-f]{64})?$' },
  maxUnavailable: { type: ['integer', 'string'] },
};

/** The schema of the chart's values: unknown names are errors, as are values of another type than the default's. */
export function valuesSchema(version: string): Schema {
  const { properties, ...schema } = schemaOf('', valuesOf(version));
  const described = Object.entries(properties as Readonly<Record<string, Schema>>).map(([name, own]) => [
    name,
    { description: VALUE_COMMENTS[name as keyof typeof VALUE_COMMENTS], ...own },
  ]);
  // Helm adds it for charts that hold this one.
  const all = { ...Object.fromEntries(described), global: { type: 'object' } } as Readonly<Record<string, Schema>>;
  return { $schema: 'http://json-schema.org/draft-07/schema#', ...schema, properties: all };
}

function schemaOf(name: string, value: unknown): Schema {
  return { ...typeOf(name, value), ...NARROWER[name] };
}

function typeOf(name: string, value: unknown): Schema {
  if (Array.isArray(value)) return { type: 'array' };
  if (typeof value === 'number') return { type: 'integer' };
  if (typeof value !== 'object' || value === null) return { type: typeof value };
  if (OPEN.has(name)) return { type: 'object' };
  const properties = Object.fromEntries(Object.entries(value).map(([key, own]) => [key, schemaOf(key, own)]));
  return { type: 'object', additionalProperties: false, properties };
}
