/** Labels the namespaces and hardens the pods of the Operator Lifecycle Manager (OLM). */
export {
  decideLabeling,
  hasLabelerPrefix,
  isCopied,
  type LabelerDecision,
  type LabelerInput,
  labelerMode,
  type LabelerMode,
  type LabelerTrigger,
  labelingPatch,
  OPENSHIFT_OLM,
} from './auto-labeler.ts';
export { catalogMode, DISABLE_SECURITY_ANNOTATION } from './catalog-source.ts';
export { HARDENING_PROFILES, hardenPod, type ProfileId } from './hardening.ts';
export { HARDENING_MANAGER, type NamespaceProposal, proposeLabels } from './namespaces.ts';
export { type HardenedObject, hardenObjects, OLM_WORKLOADS } from './objects.ts';
export { readOlmPod, reviewOlmPod } from './pod-review.ts';
export {
  type Candidate,
  mayBeOlmPod,
  OLM_POD_EXPRESSION,
  recognizeWorkload,
  resolveCatalogSource,
} from './recognition.ts';
