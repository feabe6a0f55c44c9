/**
 * What an object can hold that the API server stores: etcd takes requests of up to 1.5 MiB. Whoever reads objects from
 * the network need not put up with more.
 * @see https://etcd.io/docs/v3.6/dev-guide/limit/
 */
const MAX_BYTES = 1.5 * 1024 * 1024;

/** As stored, with the fields that the API server fills in, a container takes 40 bytes at least. */
export const MAX_CONTAINERS = Math.floor(MAX_BYTES / 40);

/** Other elements of lists (volumes, ports, capabilities and the like), together: one that means something takes 12 bytes. */
export const MAX_ITEMS = Math.floor(MAX_BYTES / 12);

/** No object of the API has as many fields; maps have their own bounds. */
export const MAX_FIELDS = 1000;

/**
 * Keys and values of all annotations, in bytes.
 * @see https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
 */
export const MAX_ANNOTATIONS_BYTES = 256 * 1024;
