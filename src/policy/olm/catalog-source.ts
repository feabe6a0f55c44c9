import { ENFORCE_LABEL } from '../../api/names.ts';
import { quote } from '../../kube/text.ts';
import { type CatalogSource, isObject, type JsonObject, objectMember } from '../../kube/types.ts';
import { POD_SECURITY_LABELS } from '../../kube/well-known.ts';

/** Annotation on a CatalogSource. The value `"true"` requests `legacy` mode. */
export const DISABLE_SECURITY_ANNOTATION = 'portcullis.dev/disable-security';

interface CatalogMode {
  readonly mode: 'legacy' | 'restricted';
  /** The field that determines the mode. */
  readonly from: string;
  /** Reasons why pods are denied or why a value is ignored. */
  readonly problems: readonly string[];
}

const CONFIG_FIELD = 'spec.grpcPodConfig.securityContextConfig';
const ENFORCE = POD_SECURITY_LABELS.enforce;

/**
 * Returns the mode of a CatalogSource's pods in a namespace that has the given labels. An invalid value means
 * `restricted`. If there is no CatalogSource, the namespace determines the mode.
 */
export function catalogMode(
  catalog: CatalogSource | undefined,
  namespaceLabels: Readonly<Record<string, string>> = {},
): CatalogMode {
  // The label that belongs to Portcullis can only raise the level.
  const label = namespaceLabels[ENFORCE_LABEL] === 'restricted' ? ENFORCE_LABEL : ENFORCE;
  const level = namespaceLabels[label];
  const { mode, from, problem } = requestedMode(catalog) ?? {
    mode: level === 'restricted' ? 'restricted' : 'legacy',
    from: `namespace label ${label}`,
  };
  return {
    mode,
    from,
    problems: [problem, mode === 'legacy' ? legacyProblem(label, level) : undefined].filter(
      (text) => text !== undefined,
    ),
  };
}

interface RequestedMode extends Pick<CatalogMode, 'mode' | 'from'> {
  readonly problem?: string;
}

function requestedMode(catalog: CatalogSource | undefined): RequestedMode | undefined {
  const spec = objectMember(catalog, 'spec');
  const value = securityContextConfig(spec);
  if (value === 'legacy' || value === 'restricted') return { mode: value, from: CONFIG_FIELD };
  if (value !== undefined && value !== null && value !== '') {
    const problem = `${CONFIG_FIELD} ${printValue(value)} must be one of "legacy", or "restricted". Its pods are treated as restricted`;
    return { mode: 'restricted', from: CONFIG_FIELD, problem };
  }
  if (spec['disableSecurity'] === true) return { mode: 'legacy', from: 'spec.disableSecurity' };
  const isDisabled = catalog?.metadata?.annotations?.[DISABLE_SECURITY_ANNOTATION] === 'true';
  return isDisabled ? { mode: 'legacy', from: `annotation ${DISABLE_SECURITY_ANNOTATION}` } : undefined;
}

function printValue(value: unknown): string {
  return typeof value === 'string' ? quote(value) : (JSON.stringify(value) ?? 'undefined').slice(0, 100);
}

function securityContextConfig(spec: JsonObject): unknown {
  return objectMember(spec, 'grpcPodConfig')['securityContextConfig'];
}

/**
 * Returns the problem with legacy pods in a namespace that enforces the restricted level. Pod Security Admission
 * enforces an invalid level as `restricted`, but OLM creates legacy pods in that case.
 */
function legacyProblem(label: string, level: string | undefined): string | undefined {
  if (level === undefined || level === 'baseline' || level === 'privileged') return undefined;
  const fix = 'Set it to "baseline" or "privileged", or set securityContextConfig to "restricted"';
  const cause = level === 'restricted' ? '' : ', an invalid level that is enforced as "restricted"';
  return `legacy pods are denied because the namespace has ${label}=${level}${cause}. ${fix}`;
}

/**
 * Returns true if OLM creates pods for the CatalogSource. OLM creates no pods for a gRPC source that has only an
 * address.
 */
export function hasCatalogPods({ spec }: CatalogSource): boolean {
  if (!isObject(spec)) return false;
  return spec['sourceType'] !== 'grpc' || Boolean(spec['image']);
}

/**
 * Returns the spec in which the supported field replaces `disableSecurity: true`, or `undefined` if that value is not
 * set.
 */
export function rewriteDisableSecurity({ spec }: CatalogSource): JsonObject | undefined {
  if (!isObject(spec) || spec['disableSecurity'] !== true) return undefined;
  const rest = Object.fromEntries(Object.entries(spec).filter(([field]) => field !== 'disableSecurity'));
  if (securityContextConfig(spec)) return rest;
  return { ...rest, grpcPodConfig: { ...objectMember(spec, 'grpcPodConfig'), securityContextConfig: 'legacy' } };
}
