/** Defaults the templates of workloads in the same way as their pods will be defaulted. */
import type { Namespace } from '../../kube/types.ts';
import type { PodFields } from '../pod/index.ts';
import { admitTemplate, sccMode, type SccSettings, type TemplateInput, templateWarnings } from '../scc/index.ts';
import type { DecodedWorkload } from './decode.ts';
import { completeTemplate, hasDefaults, type PodDefaults } from './defaults.ts';

/** A workload in a namespace where SCCs or defaults apply. */
export interface AdmittedWorkload {
  /** The workload with templates that SCC admission or the pod defaults have defaulted. */
  readonly object: DecodedWorkload;
  /** Warnings about pods that SCC admission denies. */
  readonly warnings: readonly string[];
  /** True if pods cannot be defaulted yet because the namespace has no ranges. */
  readonly isPending: boolean;
}

export interface WorkloadSettings {
  readonly scc: SccSettings;
  readonly defaults: PodDefaults;
}

interface WorkloadState {
  readonly namespace: Namespace;
  readonly settings: WorkloadSettings;
  /** Returns the SCCs and the namespace with its ranges. Called only where SCCs apply. */
  findSccs(mode: 'enforce' | 'report'): Pick<TemplateInput, 'namespace' | 'namespaceRanges' | 'sccs' | 'access'>;
}

/**
 * Defaults the templates through SCC admission or with the pod defaults. Returns `undefined` if neither applies in the
 * namespace. Calls `decode` only if one of them applies.
 */
export function admitWorkload(
  decode: () => DecodedWorkload,
  { namespace, settings, findSccs }: WorkloadState,
): AdmittedWorkload | undefined {
  const { mode } = sccMode(namespace, settings.scc);
  const withDefaults = (template: PodFields): PodFields => completeTemplate(template, namespace, settings);
  if (mode === 'off') {
    if (!hasDefaults(namespace, settings)) return undefined;
    return { object: mapTemplates(decode(), withDefaults), warnings: [], isPending: false };
  }
  const { compatibility, preferUserNamespaces } = settings.scc;
  const input = { ...findSccs(mode), compatibility, preferUserNamespaces };
  const denials: Denial[] = [];
  const object = mapTemplates(decode(), (original) => {
    const template = withDefaults(original);
    const { pod, denial } = admitTemplate(template, input);
    if (denial) denials.push(denial);
    return mode === 'enforce' ? pod : template;
  });
  const { problem } = input.namespaceRanges ?? {};
  const isPending = mode === 'enforce' && denials.some(({ status }) => status.message === problem);
  // OpenShift does not warn about templates that SCC admission denies.
  const reported = mode === 'enforce' && compatibility === 'openshift' ? [] : denials;
  const warnings = new Set(reported.flatMap((denial) => templateWarnings(denial, mode)));
  return { object, warnings: [...warnings], isPending };
}

type Denial = NonNullable<ReturnType<typeof admitTemplate>['denial']>;

function mapTemplates(workload: DecodedWorkload, complete: (template: PodFields) => PodFields): DecodedWorkload {
  if (workload.outcome === 'decoded') return workload.pod ? { ...workload, pod: complete(workload.pod) } : workload;
  if (workload.outcome !== 'templates') return workload;
  const templates = workload.templates.map(({ location, decoded }) => {
    return { location, decoded: decoded.pod ? { pod: complete(decoded.pod) } : decoded };
  });
  return { ...workload, templates };
}
