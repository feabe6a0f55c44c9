import { deepEqual } from '../../kube/equal.ts';
import { PSA_ENFORCEMENT_CONFIG, type PSAEnforcementConfig } from '../../kube/psa-enforcement-config.ts';
import { ApiError } from '../../kube/status.ts';
import { ROLLOUT_MANAGER } from '../../policy/rollout/enforcement.ts';
import type { ReconcileContext } from '../controller.ts';
import { isSaid, type Decision } from './decision.ts';

const metadata = { name: PSA_ENFORCEMENT_CONFIG };

/** Creates the object, which asks for nothing; resolves to `undefined` if the cluster does not serve its kind. */
export async function createConfig({ cluster, logger }: ReconcileContext): Promise<PSAEnforcementConfig | undefined> {
  try {
    // Nobody is to own the mode: whoever sets it first is to have it.
    const by = { fieldManager: ROLLOUT_MANAGER };
    const created = await cluster.apply('PSAEnforcementConfig', { metadata, spec: {} }, by);
    logger.info('PSAEnforcementConfig created');
    return created;
  } catch (error) {
    if (error instanceof ApiError && error.status.code === 404) return undefined;
    throw error;
  }
}

/**
 * Writes a decision where the object does not say it yet. The mode is proposed only: resolves to `refused` where the API
 * server says that it is somebody else's, and nothing is written then.
 */
export async function writeDecision(
  object: PSAEnforcementConfig,
  decision: Decision,
  { cluster, logger }: ReconcileContext,
): Promise<'unchanged' | 'refused' | 'written'> {
  let { generation } = object.metadata ?? {};
  const isNewSpec = decision.spec !== (object.spec?.enforcementMode ?? '');
  if (isNewSpec) {
    const spec = { enforcementMode: decision.spec };
    try {
      const written = await cluster.apply(
        'PSAEnforcementConfig',
        { metadata, spec },
        { fieldManager: ROLLOUT_MANAGER },
      );
      ({ generation } = written.metadata ?? {});
    } catch (error) {
      if (isOwnedByOthers(error)) return 'refused';
      throw error;
    }
    logger.info({ mode: decision.spec }, 'mode proposed');
  } else if (isSaid(object, decision)) return 'unchanged';
  const status = { ...decision.status, ...(generation === undefined ? {} : { observedGeneration: generation }) };
  await cluster.applyStatus(
    'PSAEnforcementConfig',
    { metadata, status },
    { fieldManager: ROLLOUT_MANAGER, force: true },
  );
  if (!deepEqual(object.status?.enforcementMode ?? '', status.enforcementMode)) {
    logger.info({ mode: status.enforcementMode }, 'mode decided');
  }
  return 'written';
}

function isOwnedByOthers(error: unknown): boolean {
  const causes = error instanceof ApiError && error.status.code === 409 ? error.status.details?.causes : undefined;
  return causes?.some(({ reason }) => reason === 'FieldManagerConflict') === true;
}
