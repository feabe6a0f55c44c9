import { ApiError, conflict, createStatus, type ResourceName } from '../kube/status.ts';

/** 404 for paths of a known API version that lead nowhere. */
export function noSuchResource(): ApiError {
  return new ApiError(createStatus(404, 'NotFound', 'the server could not find the requested resource', {}));
}

/** 405: the resource is there, but not for this. */
export function methodNotAllowed(): ApiError {
  const message = 'the server does not allow this method on the requested resource';
  return new ApiError(createStatus(405, 'MethodNotAllowed', message, {}));
}

/** 409: somebody else has written in between. */
export function modified(resource: ResourceName, name: string): ApiError {
  const cause = 'the object has been modified; please apply your changes to the latest version and try again';
  return new ApiError(conflict(resource, name, cause));
}

/** 415 for bodies of a type that the API does not read. */
export function unsupportedMediaType(accepted: readonly string[]): ApiError {
  const message = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`;
  return new ApiError(createStatus(415, 'UnsupportedMediaType', message));
}

/** 415 as the router of the built-in resources words it. */
export function unsupportedPatchType(): ApiError {
  return new ApiError(createStatus(415, 'UnsupportedMediaType', '415: Unsupported Media Type', {}));
}
