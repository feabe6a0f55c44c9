import { ApiError } from '../../kube/status.ts';

/** 500 without a reason: what the API server answers where it has no better Status for an error. */
export function plainError(message: string): ApiError {
  return new ApiError({ metadata: {}, status: 'Failure', message, code: 500 });
}
