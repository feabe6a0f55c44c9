import { isOurs, type Configuration } from '../../installation.ts';
import { ownWebhooks } from '../matching.ts';
import { given, type Check, type Facts, type Remark } from '../facts.ts';

/** What else in this cluster does the same: Pod Security as the API server has it built in, SCCs as OpenShift has them. */
export const arrangement: Check = {
  name: 'arrangement',
  judge: (facts) => [...judgeBuiltIn(facts), ...judgePlatform(facts)],
};

const BUILT_IN_DENIAL = /violates PodSecurity "/;
const WHERE = 'PodSecurity plugin';

/** Our own namespace is restricted, and our webhook is not asked about it: who refuses there is built in. */
function judgeBuiltIn({ probes, configurations, namespaces }: Facts): readonly Remark[] {
  const isRegistered = ownWebhooks(configurations).some(({ webhook }) => webhook.name === 'psa.portcullis.dev');
  const probe = probes.find(({ id }) => id === 'violating pod');
  const unseen = (reason: string): readonly Remark[] => [
    { severity: 'unknown', where: WHERE, what: `could not see whether it is on: ${reason}` },
  ];
  if (!probe) {
    return given(namespaces, WHERE, () => unseen('the namespace of the installation is not labelled with a level'));
  }
  if (probe.refusal !== undefined && !BUILT_IN_DENIAL.test(probe.refusal)) return unseen(probe.refusal);
  if (probe.refusal !== undefined) return [isRegistered ? BOTH : BUILT_IN_ONLY];
  if (isRegistered) return [{ severity: 'ok', where: WHERE, what: 'is off: Portcullis alone judges by Pod Security' }];
  return [
    {
      severity: 'problem',
      where: WHERE,
      what: 'is off, and psa.portcullis.dev is not registered',
      why: 'nobody judges pods by the labels of their namespaces',
      fix: 'portcullis install | kubectl apply --server-side -f -',
    },
  ];
}

const BOTH: Remark = {
  severity: 'info',
  where: WHERE,
  what: 'is on, too: it judges first by the same labels, and what it refuses Portcullis is not asked about; equal warnings are shown once',
  why: 'exemptions and defaults of the configuration of Portcullis lift nothing that the built-in plugin refuses',
};

const BUILT_IN_ONLY: Remark = {
  severity: 'info',
  where: WHERE,
  what: 'is on, and judges alone: psa.portcullis.dev is not registered',
};

const SCC_ANNOTATION = 'openshift.io/scc';
/** Of OpenShift alone; other groups of it are also served where definitions of ours or of others bring them. */
const PLATFORM_GROUPS = ['operator.openshift.io', 'route.openshift.io'];

/** Two masters of SCCs would undo what the other one does. */
function judgePlatform({ server, probes, configurations, namespace }: Facts): readonly Remark[] {
  return given(server, 'SCC admission', ({ groups }) => {
    const ours = configurations.filter((one) => isOurs(one) && hasSccs(one)).map(({ name }) => name);
    const probe = probes.find((one) => one.id === 'pod' && one.namespace?.name === namespace);
    const isAnnotated = probe?.object?.metadata.annotations?.[SCC_ANNOTATION] !== undefined;
    const isOpenShift = PLATFORM_GROUPS.some((group) => groups.includes(group));
    if (!isOpenShift && !isAnnotated) return [];
    const where = 'SCC admission';
    const what = `this cluster has its own${isOpenShift ? ' (OpenShift)' : ''}`;
    if (ours.length === 0) return [{ severity: 'ok', where, what: `${what}, and Portcullis leaves SCCs to it` }];
    return [
      {
        severity: 'problem',
        where,
        what: `${what}, and ${ours.join(', ')} ${ours.length === 1 ? 'is' : 'are'} registered beside it`,
        why: 'both choose an SCC for each pod, allot ranges to namespaces, and undo what the other one does',
        fix: 'portcullis install --profile=openshift | kubectl apply --server-side -f - && kubectl delete validatingwebhookconfiguration/scc.portcullis.dev mutatingwebhookconfiguration/zz.scc.portcullis.dev mutatingwebhookconfiguration/objects.scc.portcullis.dev --ignore-not-found',
      },
    ];
  });
}

function hasSccs({ webhooks }: Configuration): boolean {
  return webhooks.some(({ name }) => name.endsWith('.scc.portcullis.dev'));
}
