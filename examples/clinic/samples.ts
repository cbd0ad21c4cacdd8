// Adds the people and records of the clinic through its API, as any program would.

/** The people, by user name: what the admin sets. Their password is the same, chosen at the start. */
const PEOPLE = {
  rosa: { name: 'Rosa Reception', role: 'reception' },
  dora: { name: 'Dr. Dora Diaz', role: 'doctor' },
  dan: { name: 'Dr. Dan Dietrich', role: 'doctor' },
  paul: { name: 'Paul Petersen', role: 'patient' },
  pia: { name: 'Pia Pohl', role: 'patient' },
  bill: { name: 'Bill Burger', role: 'billing' },
  anna: { name: 'Anna Audit', role: 'auditor' },
} as const;

export type Person = keyof typeof PEOPLE;

/** The header with which a person asks the API. */
export const credentials = (name: string, password: string): Record<string, string> => ({
  authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
});

/**
 * Fills an empty clinic.
 * @param origin of the service, such as `http://127.0.0.1:8000`
 * @param admin the password of the user `admin`
 * @param password for all people
 * @returns the keys of the people
 */
export async function fill(
  origin: string,
  admin: string,
  password: string,
): Promise<Readonly<Record<Person, number>>> {
  async function add(model: string, fields: object, name = 'admin'): Promise<number> {
    const response = await fetch(`${origin}/api/${model}/`, {
      method: 'POST',
      headers: {
        ...credentials(name, name === 'admin' ? admin : password),
        'content-type': 'application/json',
      },
      body: JSON.stringify(fields),
    });
    if (response.status !== 201) throw new Error(`POST /api/${model}/: ${await response.text()}`);
    return ((await response.json()) as { id: number }).id;
  }
  const ids = {} as Record<Person, number>;
  for (const [username, person] of Object.entries(PEOPLE))
    ids[username as Person] = await add('user', { username, password, ...person });

  const blue = await add('room', { name: 'Blue room', floor: 1 });
  const lab = await add('room', { name: 'Laboratory', floor: 2 });
  const aspirin = await add('medicine', { name: 'Aspirin', unit: 'mg' });
  const syrup = await add('medicine', { name: 'Cough syrup', unit: 'ml' });

  const doctors = { dora: ids.dora, dan: ids.dan };
  const patients = {
    paul: await add('patient', {
      name: PEOPLE.paul.name,
      born: '1961-04-12',
      phone: '+49 30 555 0101',
      doctor_id: doctors.dora,
      account_id: ids.paul,
      diagnosis: 'High blood pressure',
    }),
    pia: await add('patient', {
      name: PEOPLE.pia.name,
      born: '1990-11-03',
      doctor_id: doctors.dan,
      account_id: ids.pia,
      diagnosis: 'Bronchitis',
    }),
    max: await add('patient', { name: 'Max Mustermann', born: '2015-02-28', doctor_id: doctors.dan }),
  };
  const treatments = [
    ['paul', 'dora', 'Blood pressure 150/95, a low dose to begin with.', aspirin, '100 mg', '86.40'],
    ['pia', 'dan', 'Coughs for a week, no fever.', syrup, '3 × 10 ml', '54.00'],
  ] as const;
  for (const [who, by, note, medicine_id, dose, amount] of treatments) {
    const patient_id = patients[who];
    const doctor_id = doctors[by];
    await add('appointment', {
      patient_id,
      doctor_id,
      room_id: blue,
      start: '2026-03-02 09:00:00',
      reason: 'Check-up',
    });
    await add('visit', { patient_id, doctor_id, date: '2026-02-02', note });
    await add('prescription', { patient_id, medicine_id, dose });
    await add('invoice', { patient_id, issued: '2026-02-03', amount });
    await add(
      'message',
      { patient_id, author_id: ids[who], text: 'May I have an earlier appointment?' },
      who,
    );
    await add('message', { patient_id, author_id: doctor_id, text: 'Please ask at the reception.' }, by);
  }
  await add('appointment', {
    patient_id: patients.max,
    doctor_id: doctors.dan,
    room_id: lab,
    start: '2026-03-02 10:30:00',
  });
  return ids;
}
