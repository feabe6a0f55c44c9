import { Ajv2020, type ErrorObject, type SchemaObject } from 'ajv/dist/2020.js';
import { type FieldError, forbiddenField, invalidValue, notSupported, requiredField } from '../kube/field-error.ts';
import { isObject } from '../kube/types.ts';

/**
 * Schemas are not validated, because they are part of Portcullis and their validation would take most of the
 * compilation time.
 */
const OPTIONS = { strict: true, validateSchema: false } as const;

/** Returns the first validation error on one line, or `undefined` if the value is valid. */
type SchemaCheck = (value: unknown) => string | undefined;

/** The logger is off because Ajv logs that the option `unicode` is deprecated. */
const UTF16_LENGTHS = { unicode: false, logger: false } as const;

/**
 * Compiles a JSON schema. Validation does not coerce, default or remove values. String lengths are in UTF-16 code
 * units, because counting code points takes longer than all other checks in a review.
 */
export function compileSchema(schema: SchemaObject): SchemaCheck {
  const validate = new Ajv2020({ ...OPTIONS, ...UTF16_LENGTHS, allErrors: false }).compile(schema);
  return (value) => (validate(value) ? undefined : describeError(validate.errors?.[0]));
}

function describeError(error: ErrorObject | undefined): string {
  if (!error) return 'does not match the schema';
  const path = error.instancePath.slice(1).replaceAll('/', '.');
  const params = error.params as { allowedValues?: readonly unknown[]; additionalProperty?: string };
  const message = params.allowedValues
    ? `must be one of ${params.allowedValues.map((value) => JSON.stringify(value)).join(', ')}`
    : (error.message ?? 'is invalid');
  return path === '' ? message : `${path}: ${message}`;
}

/** Prefix of keywords that API servers add to JSON Schema. */
const CRD_PREFIX = 'x-kubernetes-';

/**
 * Compiles the schema of a CRD. The validator returns one error for each invalid field, including unknown fields, which
 * the API server rejects under strict validation.
 */
export function compileFields(schema: SchemaObject): (value: unknown) => readonly FieldError[] {
  const ajv = new Ajv2020({ ...OPTIONS, strictTypes: false, allErrors: true, verbose: true, validateFormats: false });
  const validate = ajv.compile(closeObjects(schema) as SchemaObject);
  return (value) => {
    if (validate(value)) return [];
    const errors = validate.errors ?? [];
    // A value that has the wrong type is not reported again as an unsupported value.
    const mistyped = new Set(
      errors.filter(({ keyword }) => keyword === 'type').map(({ instancePath }) => instancePath),
    );
    return errors
      .filter(({ keyword, instancePath }) => keyword === 'type' || !mistyped.has(instancePath))
      .map(toFieldError);
  };
}

/** Converts a CRD schema to a JSON schema that forbids unlisted properties. */
export function closeObjects(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closeObjects);
  if (!isObject(schema)) return schema;
  const members = Object.entries(schema).filter(([key]) => !key.startsWith(CRD_PREFIX));
  const closed = Object.fromEntries(members.map(([key, value]) => [key, closeObjects(value)]));
  return schema['type'] === 'object' && isObject(schema['properties'])
    ? { additionalProperties: false, ...closed }
    : closed;
}

const BOOLEAN_NOTE = 'YAML reads on, off, yes and no without quotes as booleans';

function toFieldError({ instancePath, keyword, params, data, message = 'is invalid' }: ErrorObject): FieldError {
  const path = instancePath
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((parent, step) => (/^\d+$/.test(step) ? `${parent}[${step}]` : join(parent, step)), '');
  const names = params as { allowedValues?: readonly string[]; additionalProperty?: string; missingProperty?: string };
  switch (keyword) {
    case 'type':
      return invalidValue(path, data, typeof data === 'boolean' ? `${message}; ${BOOLEAN_NOTE}` : message);
    case 'enum':
      return notSupported(path, data, names.allowedValues ?? []);
    case 'additionalProperties':
      return forbiddenField(join(path, names.additionalProperty ?? ''), 'unknown field; remove it');
    case 'required':
      return requiredField(join(path, names.missingProperty ?? ''), '');
    default:
      return invalidValue(path, data, message);
  }
}

function join(parent: string, name: string): string {
  return parent === '' ? name : `${parent}.${name}`;
}
