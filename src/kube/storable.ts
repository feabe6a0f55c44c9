/**
 * What is read of one object. An object that can be stored (etcd takes 1.5 MiB) could hold several times more, which no
 * node could run, and which would keep everybody else waiting while it is judged.
 * @see https://etcd.io/docs/v3.6/dev-guide/limit/
 */

/** All containers of a pod together; the largest that run have some dozens. */
export const MAX_CONTAINERS = 5000;

/** Other elements of lists (volumes, ports, capabilities and the like), together. */
export const MAX_ITEMS = 20_000;

/** Keys of one map, like labels or annotations. */
export const MAX_KEYS = 10_000;

/** No object of the API has as many fields; maps have their own bounds. */
export const MAX_FIELDS = 1000;

/**
 * Keys and values of all annotations, in bytes.
 * @see https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
 */
export const MAX_ANNOTATIONS_BYTES = 256 * 1024;
