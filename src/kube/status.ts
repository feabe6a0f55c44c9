import { describeFieldError, type FieldError, formatFieldErrors } from './field-error.ts';
import { quote } from './text.ts';

/** A cause in the details of a Status. */
export interface StatusCause {
  readonly reason?: string;
  readonly message?: string;
  readonly field?: string;
}

export interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly StatusCause[];
  readonly retryAfterSeconds?: number;
}

/**
 * An error response from the API server.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go
 */
export interface Status {
  readonly kind?: 'Status';
  readonly apiVersion?: 'v1';
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly status: 'Failure';
  readonly message: string;
  readonly reason?: string;
  readonly details?: StatusDetails;
  readonly code: number;
}

/** The error for a failed Kubernetes API request, with the Status from the response. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: Status;

  constructor(status: Status, options?: ErrorOptions) {
    super(status.message, options);
    this.status = status;
  }
}

/** The error for an API request that got no response. A retry may succeed. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  /** True if the request timed out. The server may nevertheless have processed it. */
  readonly timedOut: boolean;

  constructor(message: string, { timedOut = false, ...options }: ErrorOptions & { readonly timedOut?: boolean } = {}) {
    super(message, options);
    this.timedOut = timedOut;
  }
}

/** A resource as it appears in messages, such as `pods` or `deployments.apps`. */
export interface ResourceName {
  readonly group: string;
  readonly resource: string;
}

/**
 * Creates a Status with code 403 for a request that the user may not send or that a policy denies. The name is empty if
 * the object uses `generateName`.
 */
export function forbidden(resource: ResourceName, name: string, cause: string): Status {
  const what = printResource(resource);
  const subject = name === '' ? what : `${what} ${quote(name)}`;
  const head = what === '' ? 'forbidden' : `${subject} is forbidden`;
  return createStatus(403, 'Forbidden', `${head}: ${cause}`, statusDetails(resource, name));
}

/** Creates a Status with code 422 for an invalid object. The details contain the kind rather than the resource. */
export function invalid(kind: { group: string; kind: string }, name: string, errors: readonly FieldError[]): Status {
  const kindName = kind.group === '' ? kind.kind : `${kind.kind}.${kind.group}`;
  const cause = errors.length === 0 ? '' : `: ${formatFieldErrors(errors)}`;
  return createStatus(422, 'Invalid', `${kindName} ${quote(name)} is invalid${cause}`, {
    ...(name === '' ? {} : { name }),
    ...(kind.group === '' ? {} : { group: kind.group }),
    ...(kind.kind === '' ? {} : { kind: kind.kind }),
    ...(errors.length === 0
      ? {}
      : {
          causes: errors.map((error) => ({
            reason: error.type,
            message: describeFieldError(error),
            field: error.path,
          })),
        }),
  });
}

/** Creates a Status with code 404 for an object that does not exist. */
export function notFound(resource: ResourceName, name: string): Status {
  return createStatus(
    404,
    'NotFound',
    `${printResource(resource)} ${quote(name)} not found`,
    statusDetails(resource, name),
  );
}

/** Creates a Status with code 409 for an object whose name is already in use. */
export function alreadyExists(resource: ResourceName, name: string): Status {
  const message = `${printResource(resource)} ${quote(name)} already exists`;
  return createStatus(409, 'AlreadyExists', message, statusDetails(resource, name));
}

/** Creates a Status with code 409 for an object that has changed since it was read. */
export function conflict(resource: ResourceName, name: string, cause: string): Status {
  const message = `Operation cannot be fulfilled on ${printResource(resource)} ${quote(name)}: ${cause}`;
  return createStatus(409, 'Conflict', message, statusDetails(resource, name));
}

/** Creates a Status with code 400 for a malformed request. */
export function badRequest(message: string): Status {
  return createStatus(400, 'BadRequest', message);
}

/** Creates a Status with code 413 for a request that exceeds a limit. */
export function tooLarge(message: string): Status {
  return createStatus(413, 'RequestEntityTooLarge', message);
}

/** Creates a Status with code 500 for an internal error. The details repeat the cause. */
export function internalError(cause: string): Status {
  return createStatus(500, 'InternalError', `Internal error occurred: ${cause}`, { causes: [{ message: cause }] });
}

export function createStatus(code: number, reason: string, message: string, details?: StatusDetails): Status {
  return { metadata: {}, status: 'Failure', message, reason, ...(details ? { details } : {}), code };
}

function printResource({ group, resource }: ResourceName): string {
  return group === '' ? resource : `${resource}.${group}`;
}

function statusDetails({ group, resource }: ResourceName, name: string): StatusDetails {
  return {
    ...(name === '' ? {} : { name }),
    ...(group === '' ? {} : { group }),
    ...(resource === '' ? {} : { kind: resource }),
  };
}
