/** Since this minor version of Kubernetes 1 all API servers know match conditions. */
export const MINIMUM_MINOR = 30;
