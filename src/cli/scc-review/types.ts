/**
 * What `scc-review` asks and is answered, as plain data. The folder reads nothing in and writes nothing out.
 */
import type { ManifestObject } from '../../config/manifests.ts';
import type { JsonObject } from '../../kube/types.ts';

/** A review that is asked about an object, or that the object is. */
export interface AskedReview {
  readonly object: ManifestObject;
  readonly namespace: string;
  readonly review: JsonObject;
}

/** A review with its `status`. */
export interface AnsweredReview {
  /** `Deployment/web`, whom the review is about. */
  readonly resource: string;
  readonly review: JsonObject;
  readonly warnings: readonly string[];
}
