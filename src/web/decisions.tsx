/** The most recent webhook decisions, newest first. */
import { useState } from 'preact/hooks';
import type { Decision } from './report-data.ts';
import { Chip, Section, Table } from './ui.tsx';

const TONES: Readonly<Record<Decision['verdict'], 'ok' | 'bad' | 'warn' | 'plain'>> = {
  allowed: 'ok',
  changed: 'ok',
  warned: 'warn',
  denied: 'bad',
  failed: 'bad',
};

export function Decisions({ decisions }: { readonly decisions: readonly Decision[] }) {
  const [isComplete, setComplete] = useState(false);
  const shown = decisions.filter(({ verdict }) => isComplete || verdict !== 'allowed');
  return (
    <Section
      title="Admission decisions"
      note="The reviews of the development cluster, as they happen. Try: kubectl run shell --image=busybox --privileged -n restricted"
    >
      <label class="check">
        <input
          type="checkbox"
          checked={isComplete}
          onChange={({ currentTarget }) => setComplete(currentTarget.checked)}
        />{' '}
        Show requests that were allowed unchanged
      </label>
      {shown.length === 0 ? (
        <p class="empty">No decisions yet.</p>
      ) : (
        <div class="decisions">
          <Table
            caption="Admission decisions"
            head={['Time', 'Verdict', 'Request', 'User', 'Webhook', 'Message']}
            rows={shown.map(({ time, verdict, operation, kind, namespace, name, user, webhook, text }) => [
              time.slice(11, 19),
              <Chip tone={TONES[verdict]}>{verdict}</Chip>,
              <>
                <span class="kind">
                  {operation.toLowerCase()} {kind}
                </span>{' '}
                {namespace === '' ? '' : `${namespace}/`}
                {name}
              </>,
              user,
              webhook,
              text,
            ])}
          />
        </div>
      )}
    </Section>
  );
}
